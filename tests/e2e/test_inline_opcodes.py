# SPDX-License-Identifier: Apache-2.0
"""`trace --engine inline --opcodes`: every instruction, against what the interpreter itself tells of each, and its names."""
import ast
import collections
import functools
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import tempfile
import time

import pytest

import lib
import pythons
from test_inline import FAMILIES, INLINE, ONE, memfds, redirected

PROGRAM = lib.PROGRAMS / "opcodes.py"
KNOWN = [n for n in FAMILIES if pythons.version(n) >= (3, 11)]
BUILDS = KNOWN + [n for n in lib.builds() if pythons.version(n) >= (3, 11)]
ROUNDS = 4  # of the program, when it is not looked at


def opcodes(out, which, *cmd, full="wait", form=(), target=("--",)):
    return lib.sh([lib.BINARY, "trace", "-q", "-o", out, *INLINE, "--opcodes", which, "--on-full", full, *form, *target, *cmd])


def lines_of(path):
    """Events in their sequence, and the line at the end."""
    lines = lib.objects(path.read_bytes())
    meta = lines.pop()["meta"]
    assert not any("meta" in line for line in lines) and [e["seq"] for e in sorted(lines, key=lambda e: e["seq"])] == list(range(len(lines)))
    return sorted(lines, key=lambda e: e["seq"]), meta


def run(name, tmp_path, *arguments, which="all"):
    """Events of the program's own functions, and what it wrote."""
    out, own = tmp_path / ("%s%s.ndjson" % (which, len(arguments))), tmp_path / "own"
    done = opcodes(out, which, *lib.command(name), "-S", PROGRAM, own, *arguments)
    assert done.returncode == 0 and not done.stderr, lib.text(done.stderr)
    told = ast.literal_eval(own.read_text())
    events, meta = lines_of(out)
    assert meta["lost"] == 0 and meta["instructions"] == len(events)
    return [e for e in events if e["file"] == str(PROGRAM) and e["func"] in told["codes"]], told


@functools.lru_cache(maxsize=None)
def told_by_itself(name):
    """Made once for the tests that look at it."""
    with tempfile.TemporaryDirectory() as folder:
        return run(name, pathlib.Path(folder), "own")


def behind_start(events, seen):
    """Without what comes before a frame's first RESUME, and the RESUMEs: neither is told to a program's own eyes."""
    first = {}
    for func, offset, _ in seen:
        first[func] = min(offset, first.get(func, offset))
    return [e for e in events if e["base"] != "RESUME" and e["offset"] >= first.get(e["func"], 1 << 30)]


def check_sequence(events, told):
    """The same instructions as the interpreter told the program of, in the same order, as deep."""
    seen = told["seen"]
    got = behind_start(events, seen)
    assert [(e["func"], e["offset"]) for e in got] == [(func, offset) for func, offset, _ in seen] and len(seen) > 2000
    assert [e["depth"] for e, s in zip(got, seen) if s[2]] == [s[2] for s in seen if s[2]]
    assert len([s for s in seen if not s[2]]) < len(seen) / 20


@pytest.mark.parametrize("name", BUILDS)
def test_sequence(name):
    check_sequence(*told_by_itself(name))


def fused(op, minor):
    """How many of the next instructions a form does, too."""
    if op.startswith("PRECALL_") and op[8:] not in ("ADAPTIVE", "PYFUNC", "BOUND_METHOD"):
        return 2 if op.endswith("LIST_APPEND") else 1
    if minor < 15 and (op == "BINARY_OP_INPLACE_ADD_UNICODE" or op.startswith("CALL_") and op.endswith("LIST_APPEND")):
        return 1
    return "__" in op or op.startswith("COMPARE_OP_") and op.endswith("_JUMP")


# some forms of a loop and of an await leave these out; the interpreter runs NOT_TAKEN for its own eyes only
NOT_ALWAYS = ("END_FOR", "POP_ITER", "END_SEND", "NOT_TAKEN")


@pytest.mark.parametrize("name", BUILDS)
def test_specialised(name, tmp_path):
    """When nobody looks the interpreter takes other forms. They stand for the same instructions, as often."""
    minor = pythons.version(name)[1]
    looked_at, told = told_by_itself(name)
    events, alone = run(name, tmp_path)
    got, want, lines = collections.Counter(), collections.Counter(), {}
    offsets = {}
    for func, offset, _ in told["seen"]:
        want[func, offset] += ROUNDS
        offsets.setdefault(func, set()).add(offset)
    for e in behind_start(events, told["seen"]):
        got[e["func"], e["offset"]] += 1
        lines.setdefault((e["func"], e["base"]), set()).add(e["line"])
        for next_one in sorted(o for o in offsets[e["func"]] if o > e["offset"])[:fused(e["op"], minor)]:
            got[e["func"], next_one] += 1
    ends = {(e["func"], e["offset"]) for e in events + looked_at if e["base"] in NOT_ALWAYS}
    if not alone["close_runs"]:
        ends |= {(e["func"], e["offset"]) for e in looked_at if e["func"] == "numbers" and e["base"] in ("CALL_INTRINSIC_1", "RERAISE")}
    assert {k: n for k, n in got.items() if k not in ends} == {k: n for k, n in want.items() if k not in ends}
    forms = {e["op"] for e in events if e["op"] != e["base"]}
    if not name.startswith("3.13t"):  # it specialises nothing
        assert "BINARY_OP_ADD_INT" in forms and any(f.startswith("LOAD_GLOBAL_") for f in forms)
        assert {e["base"] for e in events if e["op"] == "BINARY_OP_ADD_INT"} == {"BINARY_OP"}
    source = PROGRAM.read_text().splitlines()
    calls = lines["raising", "RAISE_VARARGS"]
    assert calls and all("raise" in source[line - 1] for line in calls)


@pytest.mark.parametrize("name", [n for n in KNOWN if lib.family(n) in ("3.11", "3.12", "3.13t", "3.15")])
def test_chosen_ones(name, tmp_path):
    """Of those that are asked for as many as of all, each with a time; by their names, forms included."""
    everything, _ = run(name, tmp_path)
    some, _ = run(name, tmp_path, which="RAISE_VARARGS,BINARY_OP")
    want = [(e["func"], e["offset"], e["depth"]) for e in everything if e["base"] in ("RAISE_VARARGS", "BINARY_OP")]
    assert [(e["func"], e["offset"], e["depth"]) for e in some] == want and len(want) > 100
    assert all(e["ns"] is not None and e["ns"] >= 0 for e in some)


def test_one_form(tmp_path):
    some, _ = run(ONE, tmp_path, which="binary_op_add_int")
    assert some and {e["op"] for e in some} == {"BINARY_OP_ADD_INT"}


def table(path):
    """{opcode: count} of the table by opcode, and the head."""
    head, by_opcode = path.read_text().split("\n\n")[:2]
    rows = [line.split() for line in by_opcode.splitlines()[1:]]
    return {row[6]: int(row[0]) for row in rows}, head


def test_tables(tmp_path):
    """The same figures as tables; what they take is more than nothing and less than the run."""
    events, _ = run(ONE, tmp_path)
    path = tmp_path / "t.txt"
    done = opcodes(path, "all", *lib.command(ONE), "-S", PROGRAM, tmp_path / "own")
    assert done.returncode == 0, lib.text(done.stderr)
    sums, head = table(path)
    assert re.search(r"lost: 0$", head.splitlines()[0]) and re.search(r"\d+\.\d ns of the probes' own", head)
    by_line = collections.Counter()
    for line in path.read_text().split("\n\n")[2].splitlines()[1:]:
        found = re.match(r" *(\d+) .*%  (\w+)(?: \(\w+\))? (.*):(\d+)\((.*)\)$", line)
        if found.group(3) == str(PROGRAM):
            by_line[found.group(2), int(found.group(4)), found.group(5)] += int(found.group(1))
    own = {e["func"] for e in events}
    assert {k: n for k, n in by_line.items() if k[2] in own} == collections.Counter((e["op"], e["line"], e["func"]) for e in events)
    assert sums["RAISE_VARARGS"] >= 16


SPIN = ("import sys, time\n"
        "def quick(n):\n"
        "    for _ in range(n): pass\n"
        "def nap(): time.sleep(0.002)\n"
        "print('up', flush=True)\n"
        "while 1: quick(50); nap()\n")


def seconds_for(name, path, functions, lines):
    """A program of so many functions, so long each, with the line of each instruction."""
    body = "".join("    a = a + %d\n" % i for i in range(lines))
    path.write_text("".join("def f%d(a):\n%s" % (i, body) for i in range(functions)) + "".join("f%d(1)\n" % i for i in range(functions)))
    begun = time.monotonic()
    done = opcodes(path.with_suffix(".txt"), "all", *lib.command(name), "-S", path, form=["--force"])
    assert done.returncode == 0, lib.text(done.stderr)
    return time.monotonic() - begun


@pytest.mark.parametrize("name", lib.pick("3.12", "3.15"))
def test_long_functions_take_no_longer_than_short_ones(name, tmp_path):
    """The table of a function's lines is not read from its start for each instruction."""
    long, short = (min(seconds_for(name, tmp_path / "p.py", functions, 20000 // functions) for _ in range(2)) for functions in (1, 100))
    assert long < 5 * short, (long, short)


@pytest.mark.parametrize("name", [n for n in KNOWN if lib.family(n) in ("3.11", "3.12", "3.14")])
def test_a_running_process(name, tmp_path):
    """Sums by SIGUSR1 and at the end; a call that sleeps is seen to take that long; nothing stays behind."""
    path = tmp_path / "t.txt"
    with lib.started(lib.command(name) + ["-c", SPIN]) as target:
        target.stdout.readline()
        with lib.started([lib.BINARY, "trace", "-o", path, *INLINE, "--opcodes", "all", "-p", target.pid], stderr=-1) as tracer:
            lib.until(lambda: redirected(target.pid), "the attach")
            time.sleep(0.2)
            tracer.send_signal(signal.SIGUSR1)
            lib.until((tmp_path / "t-1.txt").exists, "the first sums")
            time.sleep(0.2)  # it sleeps most of the time
            tracer.send_signal(signal.SIGINT)
            assert tracer.wait(60) == 0
        first, last = table(tmp_path / "t-1.txt")[0], table(path)[0]
        assert all(last[op] >= n for op, n in first.items()) and sum(last.values()) > sum(first.values())
        assert memfds(target.pid) == 0 and target.poll() is None
    rows = [line for line in path.read_text().splitlines() if ":4(nap)" in line and "CALL" in line]
    each = sorted(float(re.search(r"([\d.]+) ns +[\d.]+%", row).group(1)) for row in rows if re.search(r" ns +[\d.]+%", row))
    assert each and each[-1] >= 2e6, rows


THREAD_AFTER_THREAD = """
#include <pthread.h>
static void *run(void *f) { ((void (*)(void))f)(); return 0; }
void each(void (*f)(void), int n)
{
	pthread_t t;
	while (n--) pthread_create(&t, 0, run, (void *)f), pthread_join(t, 0);
}
"""


@pytest.mark.parametrize("name", lib.pick("3.11", "3.12", "3.14"))
def test_threads_that_begin_with_a_closure(name, tmp_path):
    """Made by C, one after the other with the same pthread_self(): the first instruction comes before RESUME, and is its own thread's."""
    out, source, made, prog = (tmp_path / f for f in ("t.ndjson", "each.c", "each.so", "p.py"))
    source.write_text(THREAD_AFTER_THREAD)
    assert lib.sh(["cc", "-shared", "-fPIC", "-o", made, source, "-lpthread"]).returncode == 0
    prog.write_text("import ctypes, sys, threading\n"
                    "def make(seen):\n"
                    "    def closure(): seen.append(threading.get_native_id())\n"
                    "    return closure\n"
                    "seen = []\n"
                    "ctypes.CDLL(sys.argv[1]).each(ctypes.CFUNCTYPE(None)(make(seen)), 20)\n"
                    "print(*seen)\n")
    done = lib.sh([lib.BINARY, "trace", "-q", "-o", out, *INLINE, "--opcodes", "all", "--on-full", "wait", "--", *lib.command(name), prog, made])
    assert done.returncode == 0, lib.text(done.stderr)
    events, _ = lines_of(out)
    tids = [e["tid"] for e in events if e["op"] == "COPY_FREE_VARS" and e["func"].endswith("closure")]
    assert tids == [int(tid) for tid in done.stdout.split()] and len(tids) == 20


def family(form, out, name, *options, which="RESUME"):
    """What the program and its children said of their calls of work(), and how pyebpf ended."""
    done = lib.sh([lib.BINARY, "trace", "-q", "-o", out, *INLINE, "--opcodes", which, "--on-full", "wait", "-s", *options, "--",
                   *lib.command(name), lib.PROGRAMS / "inline_family.py", form, 2],
                  env={**os.environ, "FAMILY_PYTHON": json.dumps([str(word) for word in lib.command(name)])})
    assert done.returncode == 0 and not done.stderr, lib.text(done.stderr)
    return json.loads(done.stdout)


@pytest.mark.parametrize("what, name", [("fork", n) for n in KNOWN if lib.family(n) in ("3.11", "3.13t", "3.14")] + [("both", ONE)])
def test_children(what, name, tmp_path):
    """-s: those of each process come with its number, of forked ones from where they were forked on."""
    out = tmp_path / "t.ndjson"
    said = family(what, out, name)
    events, meta = lines_of(out)
    work = collections.Counter(str(e["pid"]) for e in events if e["func"] == "work" and e["op"].startswith("RESUME"))
    assert dict(work) == said and len(said) == (3 if what == "fork" else 5) and meta["lost"] == 0
    alone = collections.Counter(e["pid"] for e in events if e["file"].endswith("inline_family.py"))
    assert {str(pid) for pid in alone} == set(said)


def test_children_as_tables(tmp_path):
    """Summed over all of them."""
    out = tmp_path / "t.txt"
    said = family("fork", out, ONE, which="all")
    rows = [line.split() for line in out.read_text().split("\n\n")[2].splitlines() if line.endswith("(work)")]
    assert sum(int(row[0]) for row in rows if row[6].startswith("RESUME")) == sum(said.values())
    assert "and what it started" in out.read_text().splitlines()[0]


def test_a_child_of_another_version(tmp_path):
    other = next(n for n in KNOWN if pythons.version(n) != pythons.version(ONE))
    out = tmp_path / "t.txt"
    code = "import subprocess, sys; print(subprocess.run(sys.argv[1:], stdout=-1).stdout.decode())"
    done = lib.sh([lib.BINARY, "trace", "-q", "-o", out, *INLINE, "--opcodes", "RESUME", "-s", "--", *lib.command(ONE), "-c", code,
                   *lib.command(other), "-S", "-c", "print(7)"])
    assert done.returncode == 0 and b"7" in done.stdout and b"another one" in done.stderr, lib.text(done.stderr)
    assert "RESUME" in out.read_text()


@pytest.mark.parametrize("full", [False, True], ids=["nobody reads", "disk full"])
def test_a_command_outlives_the_output(full, tmp_path):
    prog, flag = tmp_path / "p.py", tmp_path / "flag"
    prog.write_text("import sys\ndef f(): pass\nfor i in range(300000): f()\nopen(sys.argv[1], 'w').write('whole')\n")
    with open("/dev/full" if full else os.devnull, "wb") as out:
        ours, theirs = os.pipe()
        os.close(ours)
        done = subprocess.run([lib.BINARY, "trace", *INLINE, "--opcodes", "all", "-f", "ndjson", "-o", "-", "--", *lib.command(ONE), prog, flag],
                              stdin=subprocess.DEVNULL, stdout=out if full else theirs, stderr=subprocess.PIPE, timeout=60, check=False)
        os.close(theirs)
    assert done.returncode == 125 and (b"No space left" if full else b"Broken pipe") in done.stderr, (done.returncode, done.stderr)
    assert flag.read_text() == "whole"


def test_an_output_that_ends_while_a_child_runs(tmp_path):
    """It is not the child that is left out: the capture ends, and what is started next is not in it."""
    next_one = "from pathlib import Path; Path(%r).write_text(str('memfd:' in Path('/proc/self/maps').read_text()))" % str(tmp_path / "next")
    python = lib.command(ONE)
    script = "%s; %s" % (lib.shell_words([*python, "-c", "for i in range(1000000): pass"]), lib.shell_words([*python, "-c", next_one]))
    with lib.started([lib.BINARY, "trace", *INLINE, "-s", "--opcodes", "all", "-f", "ndjson", "-o", "-", "--", "sh", "-c", script], stderr=-1) as tracer:
        tracer.stdout.readline()
        tracer.stdout.close()
        said = lib.text(tracer.stderr.read())
        assert tracer.wait(60) == 125 and "the capture ends early" in said and "is not whole" not in said, said
    assert (tmp_path / "next").read_text() == "False"


@pytest.mark.parametrize("name", lib.pick("3.11", "3.13", "3.15"))
def test_waiting_for_room_is_no_time_of_an_instruction(name, tmp_path):
    """The ring is full for most of a second: that is not booked to whatever comes next, nor to what came before."""
    out, prog = tmp_path / "t.ndjson", tmp_path / "p.py"
    prog.write_text("import sys\nprint('ready', flush=True)\nsys.stdin.readline()\n"
                    "def f(n):\n    for i in range(n): n -= 1\nf(100000)\n")
    with lib.started([lib.BINARY, "trace", "-q", "-o", out, *INLINE, "--opcodes", "all", "--on-full", "wait", "--ring", "4M", "--",
                      *lib.command(name), "-S", prog], stdin=subprocess.PIPE, stderr=subprocess.PIPE) as tracer:
        assert tracer.stdout.readline() == b"ready\n"
        tracer.send_signal(signal.SIGSTOP)
        tracer.stdin.write(b"\n")
        tracer.stdin.flush()
        time.sleep(0.7)
        tracer.send_signal(signal.SIGCONT)
        err = lib.finish(tracer)
    events, meta = lines_of(out)
    assert meta["lost"] == 0 and len(events) > 300000, (meta, err)
    longest = max((e["ns"] or 0, e["op"]) for e in events if e["file"] == str(prog) and e["func"] == "f")
    assert longest[0] < 400e6, longest


CALLS = """def g(): pass
def f(n):
    for i in range(n): g()
f(200000)
"""


@pytest.mark.parametrize("name, which", [(name, "CALL,RESUME") for name in lib.pick("3.11", "3.13", "3.15")] + [(ONE, "all")])
def test_what_is_lost_is_counted(name, which, tmp_path):
    """Where nobody reads in time instructions are dropped, and what shows the stack, which is none: together there are as many as there
    were. (One that was specialised while nothing was recorded counts twice.)"""
    (tmp_path / "p.py").write_text(CALLS)
    cnt = {}
    for full in ("wait", "drop"):
        path = tmp_path / (full + ".ndjson")
        done = opcodes(path, which, *lib.command(name), "-S", tmp_path / "p.py", full=full, form=("--ring", "8M"))
        assert done.returncode == 0, lib.text(done.stderr)
        lines = path.read_bytes().splitlines()  # too many to look at each
        meta = json.loads(lines[-1])["meta"]
        assert meta["instructions"] == len(lines) - 1
        cnt[full] = (meta["instructions"], meta["lost"])
    (there, none), (got, lost) = cnt["wait"], cnt["drop"]
    assert there > 400000 and not none and lost and 0 <= got + lost - there < 20


@pytest.mark.parametrize("options, reason", [
    (["--opcodes", "all"], "--engine inline"), ([*INLINE, "--opcodes", "all", "--count"], "--count"),
    ([*INLINE, "--opcodes", "all", "-f", "firefox"], "ndjson"), ([*INLINE, "--opcodes", "all", "--keep-capture"], "no capture")])
def test_what_does_not_go_together(options, reason):
    done = lib.sh([lib.BINARY, "trace", *options, "-p", os.getpid()])
    assert done.returncode == 2 and reason in lib.text(done.stderr), lib.text(done.stderr)


@pytest.mark.parametrize("options, status, reason", [(["--fail-on-loss", "0", "--on-full", "wait"], 0, ""),
                                                     (["--anonymize"], 125, "keeps names"), (["--strip-paths", "/tmp"], 125, "keeps names")])
def test_options_of_all_outputs(options, status, reason, tmp_path):
    done = lib.sh([lib.BINARY, "trace", "-q", "-o", tmp_path / "t.txt", *INLINE, "--opcodes", "all", *options, "--", *lib.command(ONE), "-S", "-c", "1"])
    assert done.returncode == status and reason in lib.text(done.stderr), lib.text(done.stderr)


def each_iteration(path, *form):
    """ns, in the table, and of the probes' own, which are in it or not, as said."""
    done = opcodes(path, "all", *lib.command(ONE), "-S", "-c", "for i in range(300000): pass", form=["--force", *form])
    assert done.returncode == 0, lib.text(done.stderr)
    text = path.read_text()
    cost, = re.findall(r"(\d+\.\d) ns of the probes' own %s each" % ("are in" if form else "were taken off"), text)
    return float(re.search(r"^ *3\d{5} .* (\d+\.\d) ns .*FOR_ITER", text, re.M).group(1)), float(cost)


def test_the_probes_own_cost_is_kept_when_asked(tmp_path):
    """A short instruction is longer by that."""
    pairs = []
    while len(pairs) < 5 or (statistics.median(pairs) <= 0 and len(pairs) < 15):  # both of one pair run one behind the other
        less, cost = each_iteration(tmp_path / "t.txt")
        pairs.append(each_iteration(tmp_path / "t.txt", "--raw")[0] - less - cost / 4)
    assert statistics.median(pairs) > 0, pairs


@pytest.mark.parametrize("form, next_one", [("txt", "less -S"), ("ndjson", "tail -n 1")])
def test_what_was_written_is_told(form, next_one, tmp_path):
    """But not with -q, nor of what goes to a pipe."""
    out = tmp_path / ("t." + form)
    for target, options, told in (out, [], True), (out, ["-q", "--force"], False), ("-", [], False):
        done = lib.sh([lib.BINARY, "trace", *INLINE, "--opcodes", "all", "-f", {"txt": "text"}.get(form, form), "-o", target, *options, "--",
                       *lib.command(ONE), "-S", "-c", "1"])
        said = lib.text(done.stderr)
        assert done.returncode == 0 and (("wrote %s (" % out in said) == (next_one in said) == told), said


@pytest.mark.parametrize("which, reason", [("LOAD_FAST,NO_SUCH", "NO_SUCH"), ("CALL,all", "all stands alone")])
def test_no_such_opcode(which, reason, tmp_path):
    done = opcodes(tmp_path / "t.txt", which, *lib.command(ONE), "-c", "1")
    assert done.returncode == 125 and reason in lib.text(done.stderr), lib.text(done.stderr)


@pytest.mark.parametrize("name, form", [(n, form) for n in lib.pick("3.6", "3.10") for form in ((), ("-s",))])
def test_too_old(name, form, tmp_path):
    """Where not each instruction is dispatched by the table it is refused, and the reason is said."""
    done = opcodes(tmp_path / "t.txt", "all", *lib.command(name), "-c", "print(1)", form=form)
    assert done.returncode == 125 and not done.stdout and "dispatch" in lib.text(done.stderr), lib.text(done.stderr)


@pytest.mark.parametrize("name", KNOWN)
def test_names(name):
    """The tables of names are those of the interpreter."""
    minor = pythons.version(name)[1]
    text = (pythons.ROOT / "user" / "cpython" / ("opcode_names_3_%d.c" % minor)).read_text()
    rows = {int(number): (op, int(base)) for number, op, base in re.findall(r'\[(\d+)\] = \{ "(\w+)", (\d+) \}', text)}
    own = ast.literal_eval(lib.text(lib.sh(lib.command(name) + ["-c", (
        "import opcode, sys\n"
        "forms = getattr(opcode, '_specializations', {})\n"
        "print((dict(opcode.opmap), {b: list(f) for b, f in forms.items()}))")]).stdout))
    opmap, forms = own
    numbers = {op: number for number, (op, _) in rows.items()}
    real = {op: number for op, number in opmap.items() if number < 256}
    assert {op: numbers.get(op) for op in real} == real and len(real) > 100
    for base, names in forms.items():
        for form in names:
            if form in numbers and base in numbers:
                assert rows[rows[numbers[form]][1]][0] == base or minor == 11, (form, base)
