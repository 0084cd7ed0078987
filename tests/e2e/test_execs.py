# SPDX-License-Identifier: Apache-2.0
"""A process that was named by its pid and executes one program after the other."""
import json
import re
import time

import pytest

import lib

pytestmark = lib.needs_root
EXECS = lib.PROGRAMS / "execs.py"
COUNTED = lib.PROGRAMS / "counted.py"
TIMES = 40


def plain(family):
    """An interpreter that is started without a loader or an environment."""
    return next(lib.command(n) for n in lib.every() if lib.family(n) == family and len(lib.command(n)) == 1)


def run(families, tmp_path, *options, wait=None):
    """(its trace, what pyebpf said). `wait`: the program of this number waits until its interpreter has probes."""
    capture = tmp_path / "t.pyebpf"
    commands = [plain(f) for f in families]
    args = [word for command in commands for word in ["--"] + command][1:]
    waits = [tmp_path / ("wait%d" % n) for n in (TIMES, wait) if n is not None]
    for file in waits:
        file.touch()
    with lib.started(commands[0] + ["-S", EXECS, TIMES, tmp_path] + args) as target:
        pid = int(target.stdout.readline())
        with lib.attach(pid, capture, *options) as tracer:
            lib.wait_attached(tracer, 0 if "--host-wide" in options else pid)
            known = {f for _, f, _ in lib.probes(tracer.pid)}
            waits[0].unlink()
            if wait is not None:
                lib.until(lambda: {f for _, f, _ in lib.probes(tracer.pid)} - known, "the probes of the other one", 60)
                time.sleep(0.3)
                waits[1].unlink()
            assert target.wait(120) == 0
            said = lib.finish(tracer)
    ran = [int(line) for line in (tmp_path / "out").read_text().splitlines()]
    assert ran == list(range(TIMES, -1, -1))
    return lib.Trace(capture).whole(), said


def owns(seen):
    """Programs whose own() was seen; each has all ten calls under it."""
    count = seen.count(EXECS, "call")
    assert count["leaf"] == 10 * count["own"]
    return count["own"]


def late(seen):
    """Programs that ran before they had their probes."""
    return len([g for g in seen.gaps if g["reason"] == "attach"])


@pytest.mark.parametrize("family,options", [("3.8", ()), ("3.12", ("-s",))])
def test_the_same_interpreter_forty_times(family, options, tmp_path):
    """Nothing has to be placed, so all of it is there, however short each of them lives."""
    seen, said = run([family], tmp_path, *options)
    assert owns(seen) == TIMES + 1 and late(seen) == 0
    assert "executed" not in said


@pytest.mark.parametrize("families", [("3.12", "3.8"), ("3.8", "3.11")])
def test_two_interpreters_in_turn(families, tmp_path):
    """Each of them gets its probes once; from then on the process may execute what it likes."""
    seen, said = run(families, tmp_path, wait=TIMES - 1)
    assert owns(seen) == TIMES + 1 and late(seen) == 1
    assert "executed" not in said


@pytest.mark.parametrize("options", [(), ("-s", "--host-wide")])
def test_one_that_lives_too_short_to_be_looked_at(options, tmp_path):
    """The other interpreter is new, and nobody waits until it has probes: what is not seen is counted and said."""
    seen, said = run(("3.12", "3.8"), tmp_path, *options)
    told = re.search(r"(\d+) programs that traced processes executed", said)
    assert TIMES / 2 < owns(seen), "what ran at the attach has its probes all the time"
    assert TIMES + 1 - owns(seen) <= (int(told[1]) if told else 0) + late(seen)


# --- programs of the kernel, which are loaded when the first process is there that needs them ---

SOME = {"probe_eval_entr", "probe_eval_exit", "probe_usdt_entr", "probe_usdt_retu", "probe_leave", "probe_gen_close"}


def loaded(tracer):
    """Names of the programs that it holds: 15 letters of them."""
    mine = {number for kind, number in lib.kernel_objects(tracer.pid) if kind == "prog"}
    done = lib.sh(["bpftool", "-j", "prog", "list"])
    return {row.get("name", "")[:15] for row in json.loads(done.stdout) if row["id"] in mine}


@pytest.mark.parametrize("family, wanted", [("3.8", {"probe_eval_entr", "probe_eval_exit"}), ("3.12", {"probe_leave"}),
                                            ("3.14", {"probe_leave", "probe_gen_close"})])
@pytest.mark.parametrize("attached", [False, True])
def test_what_is_loaded_is_what_the_version_needs(family, wanted, attached, tmp_path):
    python = lib.command(lib.pick(family)[0]) + ["-c", "print(flush=True); input()"]
    options = [lib.BINARY, "trace", "--engine", "uprobe", "-q", "-o", tmp_path / "t.pyebpf"]
    with lib.started(python, stdin=-1) as target:
        target.stdout.readline()
        with lib.started(options + (["-p", target.pid] if attached else ["--"] + python), stdin=-1, stderr=-1) as tracer:
            lib.until(lambda: lib.probes(tracer.pid) and lib.waits_for_events(tracer.pid), "the probes")
            assert attached or tracer.stdout.readline() == b"\n"
            assert loaded(tracer) & SOME == wanted and {"probe_resume", "probe_clear"} <= loaded(tracer)


def test_a_command_that_runs_every_version(tmp_path):
    """None of them starts before its programs are there."""
    out = [tmp_path / name for name in lib.families()]
    script = " && ".join(lib.shell_words(lib.command(name) + ["-S", COUNTED, tmp_path / name, "add", 100]) for name in lib.families())
    seen, done = lib.traced(["sh", "-c", script], tmp_path, "-s")
    counts = seen.whole().count(COUNTED, "call")
    assert all(file.exists() for file in out) and counts["count_add"] == 100 * len(out), lib.text(done.stderr)
