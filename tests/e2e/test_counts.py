# SPDX-License-Identifier: Apache-2.0
"""What programs count themselves is what the trace holds, to the last call."""
import collections
import gzip
import json
import signal

import pytest

import lib

pytestmark = lib.needs_root
CRASHES = {"_exit": 3, "exit": 4, "raise": 1, "thread_exit": 5, "exec": 6, "abort": 128 + signal.SIGABRT,
           "segv": 128 + signal.SIGSEGV, "SIGKILL": 128 + signal.SIGKILL, "SIGTERM": 128 + signal.SIGTERM}


def per_thread(seen, prog):
    out = {}
    for e in seen.of(prog):
        if e["ev"] in lib.ENTER | lib.LEAVE:
            at = out.setdefault(str(e["tid"]), {}).setdefault(e["name"], collections.Counter())
            at[e["ev"]] += 1
    return out


def check_counted(name, what, n, tmp_path):
    counts = tmp_path / "counts.json"
    seen, _ = lib.run_program(name, "counted.py", tmp_path, counts, what, n)
    seen.whole()
    want, got = json.loads(counts.read_text()), per_thread(seen, lib.PROGRAMS / "counted.py")
    for tid, functions in want.items():
        for function, kinds in functions.items():
            assert {k: got[tid][function][k] for k in kinds} == kinds, function
    return seen, want


@pytest.mark.parametrize("name", lib.pick("3.12"))
def test_a_million_calls(name, tmp_path):
    """Too many to look at each: counted as lines, and in the profile."""
    capture, n = tmp_path / "t.pyebpf", 1000000
    done = lib.trace(["--"] + lib.command(name) + [lib.PROGRAMS / "counted.py", tmp_path / "out", "add", n], capture)
    assert done.returncode == 0, done.stderr
    raw = lib.convert(capture)
    meta = json.loads(raw.splitlines()[-1])
    assert meta["generated"] == meta["written"] and not sum(meta["dropped"].values())
    assert raw.count(b'"func":"count_add"') == 2 * n
    assert calls_by_leaf(lib.convert(capture, "pprof"))["count_add"] == n


@pytest.mark.parametrize("name", lib.pick("3.9", "3.13t"))
def test_counted_in_threads(name, tmp_path):
    check_counted(name, "threads", 20000, tmp_path)


@pytest.mark.parametrize("what, n", [("mixed", 1000)])
@pytest.mark.parametrize("name", lib.some())
def test_counted(name, what, n, tmp_path):
    check_counted(name, what, n * (20 if lib.LONG else 1), tmp_path)


# --- pprof: the same numbers, read with a few lines of protobuf ---

def varint(raw, at):
    value = shift = 0
    while True:
        byte = raw[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7


def fields(raw):
    at = 0
    while at < len(raw):
        key, at = varint(raw, at)
        if key & 7 == 0:
            value, at = varint(raw, at)
        else:
            assert key & 7 == 2, "unexpected wire type"
            size, at = varint(raw, at)
            value, at = raw[at:at + size], at + size
        yield key >> 3, value


def packed(value):
    if isinstance(value, int):
        return [value]
    out, at = [], 0
    while at < len(value):
        n, at = varint(value, at)
        out.append(n)
    return out


def calls_by_leaf(raw):
    """{function name: calls} of a pprof profile."""
    top = collections.defaultdict(list)
    for number, value in fields(gzip.decompress(raw)):
        top[number].append(value)
    strings = [s.decode() for s in top[6]]
    types = [strings[dict(fields(t))[1]] for t in top[1]]
    functions = {dict(fields(f))[1]: strings[dict(fields(f)).get(2, 0)] for f in top[5]}
    leaf = {}
    for location in top[4]:
        parts = list(fields(location))
        leaf[dict(parts)[1]] = functions[dict(fields(next(v for k, v in parts if k == 4)))[1]]
    out = collections.Counter()
    for sample in top[2]:
        places = [n for k, v in fields(sample) if k == 1 for n in packed(v)]
        values = [n for k, v in fields(sample) if k == 2 for n in packed(v)]
        out[leaf[places[0]]] += values[types.index("calls")]
    return out


@pytest.mark.parametrize("name", lib.pick("3.11"))
def test_pprof_holds_the_same_numbers(name, tmp_path):
    seen, _ = check_counted(name, "mixed", 1000, tmp_path)
    got = calls_by_leaf(lib.convert(tmp_path / "t.pyebpf", "pprof"))
    want = collections.Counter(e["func"] for e in seen.events if e["ev"] == "call")
    assert sum(got.values()) == sum(want.values())
    assert +got == +want


# --- the interpreter's corners ---

def check_calls(name, program, tmp_path, *args, kinds="call", **kw):
    out = tmp_path / "out.json"
    seen, done = lib.run_program(name, program, tmp_path, out, *args, **kw)
    seen.whole()
    want = json.loads(out.read_text())
    got = seen.count(lib.PROGRAMS / program, kinds)
    assert {f: got[f] for f in want} == want
    return seen


@pytest.mark.parametrize("name", lib.some())
def test_recursion_limit(name, tmp_path):
    seen = check_calls(name, "recursion_errors.py", tmp_path)
    mine = seen.of(lib.PROGRAMS / "recursion_errors.py")
    calls, ends = collections.Counter(), collections.Counter()
    for e in mine:
        (calls if e["ev"] in lib.ENTER else ends)[e["name"]] += 1
    assert calls == ends


@pytest.mark.parametrize("name", lib.some())
def test_hooks_switched_on_and_off(name, tmp_path):
    check_calls(name, "hooks.py", tmp_path)


@pytest.mark.parametrize("name", lib.pick("3.6", "3.10", "3.11", "3.13t", "3.15"))
def test_finalizers(name, tmp_path):
    seen = check_calls(name, "finalizers.py", tmp_path)
    assert seen.count(lib.PROGRAMS / "finalizers.py")["__del__"] > 500


@pytest.mark.parametrize("name", lib.pick("3.6", "3.13t"))
def test_thousands_of_threads(name, tmp_path):
    n = 2000 if lib.LONG or lib.family(name) == "3.6" else 500
    out = tmp_path / "out.json"
    seen, _ = lib.run_program(name, "many_threads.py", tmp_path, out, n)
    seen.whole()
    want = collections.Counter()
    for tid, calls in json.loads(out.read_text()):
        want[tid] += calls
    got = collections.Counter(e["tid"] for e in seen.of(lib.PROGRAMS / "many_threads.py")
                              if e["ev"] == "call" and e["name"] == "leaf")
    assert +got == +want
    assert seen.count(lib.PROGRAMS / "many_threads.py", "call")["work"] == n
    assert seen.count(lib.PROGRAMS / "many_threads.py", "return")["work"] == n


@pytest.mark.parametrize("name", lib.some())
def test_subinterpreters(name, tmp_path):
    seen, done = lib.run_program(name, "subinterpreters.py", tmp_path)
    runs = int(done.stdout.split()[-1])
    seen.whole()
    if not runs:
        pytest.skip("no subinterpreters in " + name)
    made = collections.Counter((e["name"], e["ev"]) for e in seen.events
                               if e["ev"] in lib.ENTER | lib.LEAVE and e["name"].startswith("sub_"))
    assert made == {("sub_leaf", "call"): runs * 50, ("sub_leaf", "return"): runs * 50, ("sub_work", "call"): runs,
                    ("sub_work", "return"): runs, ("sub_gen", "call"): runs * 10, ("sub_gen", "return"): runs * 10,
                    ("sub_gen", "yield"): runs * 50, ("sub_gen", "resume"): runs * 50}
    assert seen.count(lib.PROGRAMS / "subinterpreters.py", "return")["after"] == runs // 2


@pytest.mark.parametrize("name, daemons", [(n, 0) for n in lib.some()] + [(n, 2) for n in lib.pick("3.8", "3.12", "3.14")])
def test_shutdown(name, daemons, tmp_path):
    out = tmp_path / "lines"
    prog = lib.PROGRAMS / "shutdown.py"
    seen, _ = lib.run_program(name, "shutdown.py", tmp_path, out, daemons)
    seen.whole()
    want = collections.Counter(out.read_text().split())
    got = seen.count(prog, "call")
    for f in ("leaf", "__del__", "at_exit", "on_dead"):
        assert got[f] == want[f], f
    assert want["at_exit"] >= 3 and want["leaf"] >= 5
    ended = seen.count(prog, lib.LEAVE)
    assert ended["leaf"] == want["leaf"] and ended["__del__"] == want["__del__"]
    entered = collections.Counter(e["tid"] for e in seen.of(prog) if e["ev"] == "call" and e["name"] == "quick")
    assert len(entered) <= daemons
    # the closing of the generator that a module holds: thrown into, or finished by its deallocation
    assert want["held"] == 1 and got["held"] == 1


@pytest.mark.parametrize("how", sorted(CRASHES))
@pytest.mark.parametrize("name", lib.pick("3.12"))
def test_ends_of_all_sorts(name, how, tmp_path):
    out = tmp_path / "out.json"
    prog = lib.PROGRAMS / "ends.py"
    seen, _ = lib.run_program(name, "ends.py", tmp_path, how, out, status=CRASHES[how])
    seen.whole()
    got = seen.count(prog, "call")
    assert got["leaf"] == int(out.read_text()) and got["down"] == 11 and got["end"] == 1
    ended = seen.count(prog, lib.LEAVE)
    assert ended["leaf"] == 1000 and ended["end"] == (how in ("exit", "raise"))
