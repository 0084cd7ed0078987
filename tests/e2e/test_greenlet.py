# SPDX-License-Identifier: Apache-2.0
"""greenlet changes a thread's stack under the interpreter: shown as a gap, and right after it. From PyPI, skipped without."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

import lib
import test_inline

pytestmark = lib.needs_root
VERSIONS = ("3.8", "3.10", "3.11", "3.12", "3.13", "3.13t", "3.14", "3.15")
CACHE = pathlib.Path(os.environ.get("PYEBPF_CACHE") or pathlib.Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "pyebpf")


def with_greenlet(name):
    """Where it is installed for this interpreter, for PYTHONPATH. What failed once is not tried again for this folder's life."""
    place = CACHE / "greenlet" / name
    if not place.exists():
        place.mkdir(parents=True)
        version = lib.family(name)
        with_pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:",
                    "--timeout", "10", "--retries", "1", "--target", str(place), "--implementation", "cp",
                    "--python-version", version.rstrip("t")]
        if version.endswith("t"):
            with_pip += ["--abi", "cp" + version.replace(".", "")]
        musl = name in lib.musl()
        for libc in ["musllinux_1_1"] if musl else ["manylinux2014", "manylinux_2_24", "manylinux_2_28"]:
            with_pip += ["--platform", libc + "_x86_64"]
        try:  # the last one for the musl of Debian 12: the C++ library that newer ones bring along does not run with it
            subprocess.run(with_pip + ["greenlet<3.3" if musl else "greenlet"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=120)
        except subprocess.TimeoutExpired:
            pass
    if not (place / "greenlet").exists():
        pytest.skip("greenlet cannot be installed for " + name)
    return str(place)


def callers(trace):
    """Each event with which a frame is on a stack, and the name of the frame below it."""
    stacks = {}
    for e in trace.events:
        stack = stacks.setdefault(e.get("tid"), [])
        if e["ev"] == "gap":
            stack.clear()
        elif e["ev"] in lib.ENTER | {"open"}:
            yield e, stack[-1] if stack else None
            stack.append(e["name"])
        elif e["ev"] in lib.LEAVE:
            stack.pop()


def kept(trace, files):
    """Each event of functions of these files, and the nearest function of them below."""
    out, stack = [], []
    for e in trace.events:
        if e["ev"] == "gap":
            stack.clear()
        elif e["ev"] in lib.ENTER | {"open"}:
            if e["file"] in files and e["ev"] != "open":
                out.append((e["ev"], e["name"], next((n for n in reversed(stack) if n), None)))
            stack.append(e["name"] if e["file"] in files else None)
        elif e["ev"] in lib.LEAVE:
            stack.pop()
            if e["file"] in files:
                out.append((e["ev"], e["name"]))
    return out


@pytest.mark.parametrize("name", lib.pick("3.8", "3.11", "3.12", "3.13t", "3.15"))
def test_what_is_left_out_in_greenlets(name, tmp_path):
    """Stacks change in the middle of calls that leave no record."""
    env = dict(os.environ, PYTHONPATH=with_greenlet(name))
    command = lib.command(name) + [lib.PROGRAMS / "mixed.py", 7, 300 if lib.LONG else 150, "greenlets"]
    whole, _ = lib.traced(command, tmp_path, "--engine", "inline", "--on-full", "wait", env=env)
    files = sorted({e["file"] for e in whole.whole().events if e.get("file", "").startswith("/made/")})
    for chosen in files[::2], files[1:3]:
        options = [word for file in chosen for word in ("--include", file)]
        seen, _ = lib.traced(command, tmp_path, "--engine", "inline", "--on-full", "wait", *options, env=env)
        assert kept(seen.whole(), chosen) == kept(whole, chosen)
        assert len(kept(whole, chosen)) > (1000 if lib.LONG else 500)


@pytest.mark.parametrize("name", lib.pick(*VERSIONS) + lib.musl())
def test_switches(name, tmp_path):
    out = tmp_path / "out.json"
    env = dict(os.environ, PYTHONPATH=with_greenlet(name))
    seen, _ = lib.run_program(name, "greenlets.py", tmp_path, out, env=env)
    assert seen.lost == 0 and seen.meta["generated"] == seen.meta["written"]
    want = json.loads(out.read_text())
    got = seen.count(lib.PROGRAMS / "greenlets.py", "call")
    assert {f: got[f] for f in want} == want
    assert [g for g in seen.gaps if g["reason"] == "switch"]
    mine = [e for e in seen.of(lib.PROGRAMS / "greenlets.py")]
    found = {}
    for e, caller in callers(seen):
        if e["file"].endswith("greenlets.py"):
            found.setdefault(e["name"], set()).add(caller or "")
    assert mine and found["deep"] <= {"worker", "deep"} and found["leaf"] <= {"worker", "deep", "go", "dying"}


@pytest.mark.parametrize("name", lib.pick(*VERSIONS))
def test_those_that_stand_still_at_the_attach(name, tmp_path):
    """Their stacks were never seen: they are told when they go on, and each call has the stack that sys.setprofile() sees."""
    command = lib.command(name) + [lib.PROGRAMS / "held_greenlets.py", 300]
    env = dict(os.environ, PYTHONPATH=with_greenlet(name))
    out, cap = tmp_path / "stacks.json", tmp_path / "t.pyebpf"
    subprocess.run([str(c) for c in command + [out]], env=env, input=b"\n\n", stdout=subprocess.DEVNULL, timeout=60, check=True)
    with lib.started(command, env=env, stdin=subprocess.PIPE) as target:
        assert target.stdout.readline() == b"ready\n"
        with lib.attach(target.pid, cap, "--engine", "inline") as tracer:
            lib.until(lambda: test_inline.redirected(target.pid), "the attach")
            target.stdin.write(b"\n")
            target.stdin.flush()
            assert target.stdout.readline() == b"done\n"
            lib.stop(tracer)
    seen = lib.Trace(cap)
    assert seen.lost == 0 and seen.meta["generated"] == seen.meta["written"]
    assert {g["reason"] for g in seen.gaps} == {"switch"}
    want = json.loads(out.read_text())
    assert len(want) > 1000
    assert [stack for _, stack in seen.stacks() if stack[-1] != "decode"] == want


@pytest.mark.parametrize("name", lib.pick("3.8", "3.12"))
def test_those_that_stand_still_in_a_loss(name, tmp_path):
    """What each had on its stack is not known behind it, and told again."""
    cap = tmp_path / "t.pyebpf"
    env = dict(os.environ, PYTHONPATH=with_greenlet(name))
    with lib.started(lib.command(name) + [lib.PROGRAMS / "lost_greenlets.py", 100], env=env, stdin=subprocess.PIPE) as target:
        assert target.stdout.readline() == b"ready\n"
        with lib.attach(target.pid, cap, "--engine", "inline", "--ring", "256K") as tracer:
            lib.until(lambda: test_inline.redirected(target.pid), "the attach")
            run_into_a_loss(target, tracer)
            lib.stop(tracer)
    check_lost_greenlets(lib.Trace(cap))


def run_into_a_loss(target, tracer):
    """lost_greenlets.py, from its beginning to its last word."""
    target.stdin.write(b"\n")
    target.stdin.flush()
    time.sleep(0.5)
    tracer.send_signal(signal.SIGSTOP)
    time.sleep(1.2)
    tracer.send_signal(signal.SIGCONT)
    assert target.stdout.readline() == b"done\n"


def check_lost_greenlets(seen):
    assert seen.lost and [g for g in seen.gaps if g["reason"] == "lost"]
    leaves = [stack for _, stack in seen.stacks() if stack[-1].startswith("leaf_")]
    assert len(leaves) > 20000
    wrong = [stack for stack in leaves if stack != [kind + stack[-1][5:] for kind in ("root_", "inner_", "leaf_")]]
    assert not wrong, (len(wrong), wrong[:3])


def places_of_greenlet(name, tmp_path):
    """How a program finds it that was not there when pyebpf attached: a command, and its environment."""
    place, version = with_greenlet(name), "python" + lib.family(name)
    (tmp_path / "home/.local/lib" / version).mkdir(parents=True)
    (tmp_path / "home/.local/lib" / version / "site-packages").symlink_to(place)
    venv = tmp_path / "venv"
    assert lib.sh([*lib.command(name), "-m", "venv", "--without-pip", venv]).returncode == 0
    packages, = venv.glob("lib/python3*/site-packages")
    for each in pathlib.Path(place).iterdir():
        (packages / each.name).symlink_to(each)
    return {"PYTHONPATH": (lib.command(name), dict(os.environ, PYTHONPATH="/nowhere:" + place)),
            "HOME": (lib.command(name), dict(os.environ, HOME=str(tmp_path / "home"))),
            "venv": ([venv / "bin/python"], os.environ)}


@pytest.mark.parametrize("where", ["PYTHONPATH", "HOME", "venv"])
@pytest.mark.parametrize("name", [name for name in lib.pick("3.12", "3.13") if name.startswith("pyenv")])  # a venv of what ld.so starts does not run
def test_a_command_that_loads_it_later(name, where, tmp_path):
    """The stubs look for switches where it is installed: it is not there yet when they are made."""
    command, env = places_of_greenlet(name, tmp_path)[where]
    cap = tmp_path / "t.pyebpf"
    traced = [lib.BINARY, "trace", "-q", "--engine", "inline", "--ring", "256K", "-o", cap, "--", *command, lib.PROGRAMS / "lost_greenlets.py", 100]
    with lib.started(traced, env=env, stdin=subprocess.PIPE) as tracer:
        assert tracer.stdout.readline() == b"ready\n"
        run_into_a_loss(tracer, tracer)
        tracer.stdin.write(b"\n")
        tracer.stdin.flush()
        assert tracer.wait(60) == 0
    check_lost_greenlets(lib.Trace(cap))


@pytest.mark.parametrize("where", ["PYTHONPATH", "HOME", "venv"])
@pytest.mark.parametrize("name", [name for name in lib.pick("3.12") if name.startswith("pyenv")])
def test_a_running_process_that_loads_it_later(name, where, tmp_path):
    command, env = places_of_greenlet(name, tmp_path)[where]
    cap = tmp_path / "t.pyebpf"
    with lib.started([*command, lib.PROGRAMS / "lost_greenlets.py", 100, "later"], env=env, stdin=subprocess.PIPE) as target:
        assert target.stdout.readline() == b"begun\n"
        with lib.attach(target.pid, cap, "--engine", "inline", "--ring", "256K") as tracer:
            lib.until(lambda: test_inline.redirected(target.pid), "the attach")
            target.stdin.write(b"\n")
            target.stdin.flush()
            assert target.stdout.readline() == b"ready\n"
            run_into_a_loss(target, tracer)
            lib.stop(tracer)
    check_lost_greenlets(lib.Trace(cap))


@pytest.mark.parametrize("name", lib.pick("3.8", "3.11", "3.12"))
def test_one_that_runs_unseen_in_a_loss(name, tmp_path):
    """Another thread loses events. This one has lost none, but runs another greenlet than its last event has shown."""
    cap = tmp_path / "t.pyebpf"
    env = dict(os.environ, PYTHONPATH=with_greenlet(name))
    with lib.started(lib.command(name) + [lib.PROGRAMS / "calm_greenlets.py"], env=env, stdin=subprocess.PIPE) as target:
        def go_on(said):
            target.stdin.write(b"\n")
            target.stdin.flush()
            assert target.stdout.readline() == said
        assert target.stdout.readline() == b"ready\n"
        with lib.attach(target.pid, cap, "--engine", "inline", "--ring", "64K") as tracer:
            lib.until(lambda: test_inline.redirected(target.pid), "the attach")
            go_on(b"calm\n")
            time.sleep(0.5) # its events are read, and it waits
            tracer.send_signal(signal.SIGSTOP)
            go_on(b"lost\n")
            tracer.send_signal(signal.SIGCONT)
            time.sleep(1)
            go_on(b"done\n")
            lib.stop(tracer)
    seen = lib.Trace(cap)
    assert [g for g in seen.gaps if g["reason"] == "lost"]
    leaves = [stack for _, stack in seen.stacks() if stack[-1].endswith("_leaf")]
    assert len(leaves) > 30
    wrong = [stack for stack in leaves if stack != [stack[-1][:4] + what for what in ("root", "inner", "leaf")]]
    assert not wrong, (len(wrong), wrong[:3])


def check_own(seen, count):
    """Whoever called it in own_greenlets.py."""
    assert seen.lost == 0 and seen.meta["generated"] == seen.meta["written"]
    got, wrong = 0, []
    for e, caller in callers(seen):
        kind, _, number = e["name"].rpartition("_")
        if e["ev"] != "call" or kind not in ("leaf", "node"):
            continue
        got += 1
        want = ("node_" + number,) if kind == "leaf" else ("root_" + number, "__init__")
        if caller not in want:
            wrong.append((e["name"], caller))
    assert got == 2 * 3 * 20 * count and not wrong, (got, len(wrong), wrong[:5])


@pytest.mark.parametrize("engine", ["auto", "inline"])
@pytest.mark.parametrize("name", lib.pick(*VERSIONS) + lib.musl())
def test_calls_belong_to_their_own_greenlet(name, engine, tmp_path):
    """Greenlets' frames lie at the same places of their chunks of memory, and those of an `__init__` look like others."""
    env = dict(os.environ, PYTHONPATH=with_greenlet(name))
    seen, _ = lib.run_program(name, "own_greenlets.py", tmp_path, 100, options=("--engine", engine), env=env)
    check_own(seen, 100)


@pytest.mark.parametrize("name", lib.pick("3.12", "3.14", "3.15") + [n for n in lib.builds() if lib.family(n) == "3.14"])
def test_generators_that_a_greenlet_closes(name, tmp_path):
    """Right when C code has switched to it, which from 3.14 on shows no event of what closes it, and runs nothing."""
    env = dict(os.environ, PYTHONPATH=with_greenlet(name))
    seen, _ = lib.run_program(name, "closing_greenlets.py", tmp_path, 30, options=("--engine", "inline"), env=env)
    assert seen.lost == 0 and seen.meta["generated"] == seen.meta["written"]
    closed = [(*e["name"].split("_"), caller) for e, caller in callers(seen) if e["ev"] == "throw" and e["name"].startswith(("each_", "held_"))]
    assert len(closed) == 30 * 20
    assert not [(kind, number, caller) for kind, number, caller in closed if caller != "root_" + number][:5]


@pytest.mark.parametrize("name", lib.pick("3.10", "3.11", "3.12"))
def test_greenlets_under_a_profile_function(name, tmp_path):
    """In 3.11 that is called before a greenlet's first frame has shown itself, on its stack and not on the last one's."""
    env = dict(os.environ, PYTHONPATH=with_greenlet(name))
    seen, _ = lib.run_program(name, "own_greenlets.py", tmp_path, 50, "told", options=("--engine", "inline"), env=env)
    check_own(seen, 50)
    assert not [g for g in seen.gaps if g["reason"] == "lost"]
    calls = [e["name"] for e in seen.events if e["ev"] == "call" and e["name"].startswith("root_")]
    assert sorted(calls) == sorted("root_%d" % n for n in range(50))
