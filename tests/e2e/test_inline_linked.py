# SPDX-License-Identifier: Apache-2.0
"""Frames that are linked into a stack, and do not run, when it is read: at the attach, and behind a loss."""
import signal
import time

import pytest

import lib
import pythons
import test_inline

THROWN = {"thrown": [], "thrown_far": [], "thrown_own": ["throw"], "thrown_await": [], "thrown_await_own": ["throw"]}
NOT_OURS = ("_bootstrap", "_bootstrap_inner", "run", "[unreadable]")
SENT = {"sent_far": ["outer"] * 6 + ["sent"], "sent_await": ["awaits"] * 4 + ["__await__", "sent"]}


def stacks_of(name, told):
    """By case, the names of what runs above it."""
    version, want = pythons.version(name), {}
    for case, own in THROWN.items():
        want[case] = ["throw"] + own + ["inner", "hold"]
    for case, own in SENT.items():
        want[case] = ["send"] + own + ["hold"]
    # to 3.10 a frame begins before and ends behind what it tells; in 3.11 it is the other way round; then a yield has come before
    shown = {"told_call": version != (3, 11), "told_resume": version != (3, 11), "told_line": True,
             "told_yield": version < (3, 11), "told_return": version != (3, 11)}
    for case, is_shown in shown.items() if told else ():
        want[case] = ["watch"] + ["watched_await"] * is_shown + ["tool", "hold"]
    return want


def calls(trace):
    """By thread: the stack of each call of `leaf` and `after`."""
    out = {}
    for e, stack in trace.stacks():
        if e["file"].endswith("linked.py") and e["name"] in ("leaf", "after"):
            out.setdefault(e["tid"], []).append(tuple(n for n in stack if n not in NOT_OURS))
    return out


def check(seen, name, want, loops, lossy):
    got, expected = sorted(calls(seen).values()), []
    for case, above in want.items():
        for depth in (0, 200):
            go = ("go",) * (depth + 1)
            stack = go + (case,) + tuple(above) + ("leaf",)
            if pythons.version(name) == (3, 9) and case in THROWN:
                stack = tuple(above[1:]) + ("leaf",) # those below are not linked
            expected.append([stack] * (1 if lossy else loops + 1) + [go + ("after",)])
    if lossy:
        got = [stacks[-2:] for stacks in got]
    for case in expected:
        assert case in got, ([stack[-9:] for stack in case[-3:]], [[stack[-9:] for stack in other[-3:]] for other in got])
        got.remove(case)
    assert not got


def run(name, tmp_path, loops, *more, lossy=False, options=("--on-full", "wait")):
    prog, cap = lib.PROGRAMS / "linked.py", tmp_path / "t.pyebpf"
    with lib.started(lib.command(name) + ["-S", prog, loops, *more], stdin=-1) as target:
        def go_on():
            target.stdin.write(b"\n")
            target.stdin.flush()
            return target.stdout.readline()
        target.stdout.readline()
        with lib.attach(target.pid, cap, "--engine", "inline", "-q", *options) as tracer:
            lib.until(lambda: test_inline.redirected(target.pid), "the attach")
            if lossy:
                tracer.send_signal(signal.SIGSTOP)
            go_on()
            if lossy:
                tracer.send_signal(signal.SIGCONT)
                time.sleep(1) # the stacks are read
            assert go_on() == b"done\n"
            said = lib.stop(tracer)
        go_on()
    return lib.Trace(cap), said


def reasons(seen):
    return {g["reason"] for g in seen.gaps}


@pytest.mark.parametrize("told", [False, True])
@pytest.mark.parametrize("name", lib.families())
def test_attach(name, told, tmp_path):
    seen, said = run(name, tmp_path, 2, *["told"] * told)
    # 3.9 links the outer generators, but not to their caller: what is below is told when it goes on
    assert reasons(seen.whole()) == ({"switch"} if pythons.version(name) == (3, 9) else set())
    check(seen, name, stacks_of(name, told), 2, False)
    assert "warning: " not in said, said


@pytest.mark.parametrize("name", lib.families())
def test_loss(name, tmp_path):
    loops = 30000 if name.endswith("t") else 3000 # each thread has a ring
    seen, said = run(name, tmp_path, loops, lossy=True, options=("--ring", "64K"))
    assert seen.lost and reasons(seen) - {"switch"} == {"lost"}
    assert "switch" not in reasons(seen) or pythons.version(name) == (3, 9)
    check(seen, name, stacks_of(name, False), loops, True)
    assert "did not match" not in said and "did not fit" not in said, said
