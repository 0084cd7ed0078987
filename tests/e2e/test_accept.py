# SPDX-License-Identifier: Apache-2.0
"""The acceptance checks of tests/accept, on every interpreter and with each engine that applies."""
import filecmp
import json
import shlex
import subprocess
import sys

import pytest

import lib
import pythons

ACCEPT = pythons.ROOT / "tests" / "accept"
SHARED = pythons.ROOT.parent / "shared" / "accept"
WAIT = ["-c", "import time; print(flush=True); time.sleep(1000)"]
PROGRAMS = sorted((ACCEPT / "workloads").glob("*.py"))
# What cannot run: {program: (the first version that can, why)}.
NEEDS = {"coroutines.py": ((3, 7), "asyncio.run is new in 3.7")}


def differences(compared):
    yield from compared.left_only + compared.right_only + compared.diff_files + compared.funny_files
    for sub in compared.subdirs.values():
        yield from differences(sub)


@pytest.mark.skipif(not SHARED.exists(), reason="the folder that tests/accept was copied from is not here")
def test_the_copy_is_unchanged():
    assert not list(differences(filecmp.dircmp(SHARED, ACCEPT, ignore=["__pycache__"])))


def test_what_is_left_out_is_there():
    assert set(NEEDS) <= {program.name for program in PROGRAMS}


@pytest.fixture
def engines(pyebpf, interpreter):
    """auto, and every engine by name that auto would not take but that applies."""
    with pythons.running(interpreter.command + WAIT) as (process, _):
        row, = json.loads(pyebpf.ok("list", "--json", process.pid).stdout)
        others = [engine for engine in ("uprobe", "usdt") if engine != row["engine"] and
                  pyebpf("list", "--probes", "--engine", engine, process.pid).returncode == 0]
    return ["auto"] + others


def some(interpreter, engine, programs):
    """In the short form: what differs by the build, or by the engine, shows in these."""
    if engine == "auto" and interpreter.name in lib.families() or lib.LONG:
        return programs
    return lib.shown_by_build(programs)


def check(script, pyebpf, interpreter, engines, *programs):
    args = [word for engine in engines for word in ("--engine", engine)]
    done = subprocess.run([sys.executable, ACCEPT / script, "--pyebpf", pyebpf.path, "--python",
                           shlex.join(interpreter.command), *args, *programs],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          encoding="utf-8", timeout=300)
    bad = [line for line in done.stdout.splitlines() if not line.startswith("ok")]
    if done.returncode or any(line.startswith("n/a") for line in bad):
        pytest.fail("\n".join(bad), pytrace=False)


@pytest.mark.needs_root
def test_exact(pyebpf, interpreter, engines):
    programs = [program for program in PROGRAMS
                if interpreter.version >= NEEDS.get(program.name, ((0, 0), ""))[0]]
    for engine in engines:
        check("trace_exact.py", pyebpf, interpreter, [engine], *some(interpreter, engine, programs))


# Of the other builds in the short form: where structures are others, and one that its loader is given.
ATTACHED = [name for name in pythons.names() if lib.LONG or name in lib.families() or lib.family(name) == "3.7" or name in ("3.9-bullseye", "3.11d-debian")]


@pytest.mark.needs_root
@pytest.mark.parametrize("interpreter", ATTACHED, indirect=True)
def test_attach(pyebpf, interpreter, engines):
    whole = lib.LONG or interpreter.name in lib.families()
    check("trace_attach.py", pyebpf, interpreter, engines if whole else engines[:1])
