# SPDX-License-Identifier: Apache-2.0
"""Probe plans against the interpreter's own counts, on every interpreter that scripts/pythons has.

Each site is a tracefs uprobe (root); the hits per pass of plan_workload.py must be what sys.monitoring or
sys.setprofile says, and the object found at each site must be a frame with a code object. Where
the experiments of ../shared/tools are there, the handlers must be those that they find.
"""
import json
import os
import re
import shlex
import subprocess
import sys

import pytest

import plan_probes
import plan_workload
from plan_probes import ROOT, Plan, Uprobes
from pythons import BUILD

HERE = os.path.dirname(os.path.abspath(__file__))
WORKLOAD = os.path.join(HERE, "plan_workload.py")
TOOLS = os.path.join(os.path.dirname(ROOT), "shared", "tools")
PASSES = 60


def pythons():
    done = subprocess.run([os.path.join(ROOT, "scripts", "pythons"), "--list"],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, universal_newlines=True)
    return [line.split("\t", 1) for line in done.stdout.splitlines()]


def run(command, *args):
    return subprocess.run(command + [str(a) for a in args], stdout=subprocess.PIPE, check=True,
                          universal_newlines=True).stdout


def interpreter_files(command):
    """Mapped files that hold an interpreter loop by our own judgement."""
    maps = run(command, "-c", "print(open('/proc/self/maps').read())")
    files = {f[5] for f in (line.split(None, 5) for line in maps.splitlines())
             if len(f) == 6 and "x" in f[1] and f[5].startswith("/")}
    return [f for f in sorted(files) if Plan(f).status == 0]


class Interpreter:
    def __init__(self, name, command):
        self.name, self.command = name, shlex.split(command)
        self.minor = int(run(self.command, "-c", "import sys; print(sys.version_info[1])"))
        files = interpreter_files(self.command)
        assert len(files) == 1, files
        self.elf = files[0]
        self._truth = None

    def truth(self):
        """Events per pass."""
        if self._truth is None:
            counts = json.loads(run(self.command, WORKLOAD, 1000, "truth"))
            self._truth = {name: round(count / 1000) for name, count in counts.items()}
        return self._truth


@pytest.fixture(scope="module", params=pythons(), ids=lambda p: p[0])
def interpreter(request):
    return Interpreter(*request.param)


def offsets(plan):
    """Of the code object in a frame, and of the type in an object."""
    return {11: 32}.get(plan.minor, 0 if plan.minor > 11 else 32), 24 if plan.free_threaded else 8


def expected(plan, truth):
    """{what: (events per pass, kinds of sites)}"""
    w = plan_workload
    codes = (w.CODES, ["code-dealloc"])
    if plan.minor < 11:
        return {"entries": (truth["call"], ["eval-entry", "usdt-entry"]),
                "exits": (truth["return"], ["eval-exit", "usdt-return"]),
                "refused": (0, ["eval-refused"]), "codes": codes}
    if plan.minor == 11:
        return {"entries": (truth["call"] - w.THROWS, ["resume"]),
                "exits": (truth["return"], ["return", "unwind", "yield"]), "codes": codes}
    shims = w.SHIMS if plan.minor >= 13 and not plan.free_threaded else 0
    genexprs = w.GENEXPRS if plan.minor >= 15 else 0
    return {"entries": (truth["PY_START"] + truth["PY_RESUME"] + genexprs, ["resume"]),
            "exits": (truth["PY_RETURN"] + truth["PY_UNWIND"] + shims, ["clear", "return", "unwind"]),
            "yields": (truth["PY_YIELD"], ["yield"]), "codes": codes}


def total(plan, hits, kinds):
    return sum(h for h, site in zip(hits, plan.sites) if site.kind in kinds)


needs_tracefs = pytest.mark.skipif(not plan_probes.available(), reason="tracefs needs root")


@needs_tracefs
@pytest.mark.parametrize("engine", ["uprobe", "usdt"])
def test_counts(interpreter, engine):
    plan = Plan(interpreter.elf, engine)
    if engine == "usdt" and plan.status:
        assert plan.status == 5 and "USDT" in plan.error or "function__entry" in plan.error
        pytest.skip("no complete USDT probes")
    assert plan.status == 0, plan.error
    assert plan.minor == interpreter.minor
    with Uprobes(plan, *offsets(plan)) as uprobes:
        few, _ = uprobes.run(interpreter.command + [WORKLOAD, str(PASSES)])
        many, types = uprobes.run(interpreter.command + [WORKLOAD, str(2 * PASSES)])
    hits = [(b - a) / PASSES for a, b in zip(few, many)]
    for site, count in zip(plan.sites, hits):
        print("%-26s %8.3f  %s%s" % (site.name, count, site.insn,
                                     "  SINGLE-STEP" if site.single_step else ""))
    for what, (want, kinds) in expected(plan, interpreter.truth()).items():
        assert abs(total(plan, hits, kinds) - want) < 0.02, what
    assert len(set().union(*types)) <= 1, "objects that are no frames or code objects"


@needs_tracefs
def test_counts_while_the_program_is_monitored(interpreter):
    """Under sys.monitoring other handlers run, and the callbacks (two calls each) are calls too."""
    if interpreter.minor < 12:
        pytest.skip("no sys.monitoring")
    plan = Plan(interpreter.elf, "uprobe")
    with Uprobes(plan, *offsets(plan)) as uprobes:
        few, _ = uprobes.run(interpreter.command + [WORKLOAD, str(PASSES), "truth"])
        many, types = uprobes.run(interpreter.command + [WORKLOAD, str(2 * PASSES), "truth"])
    hits = [(b - a) / PASSES for a, b in zip(few, many)]
    truth = interpreter.truth()
    callbacks = 2 * sum(truth.values())
    for what, (want, kinds) in expected(plan, truth).items():
        more = callbacks if what in ("entries", "exits") else 0
        if what == "entries":       # RESUME of a new code object instruments it and runs once more
            more += plan_workload.CODES
        assert abs(total(plan, hits, kinds) - want - more) < 0.02, what
    assert len(set().union(*types)) <= 1
    names = {site.name: count for site, count in zip(plan.sites, hits)}
    assert names["INSTRUMENTED_RESUME"] > 0 and names["INSTRUMENTED_YIELD_VALUE"] > 0


@needs_tracefs
def test_recursion_limit(interpreter):
    """Up to 3.10 a call that is refused is an entry whose exit is told apart."""
    plan = Plan(interpreter.elf, "uprobe")
    if plan.minor > 10:
        pytest.skip("nothing is entered when the limit is reached")
    with Uprobes(plan, *offsets(plan)) as uprobes:
        hits, _ = uprobes.run(interpreter.command + [WORKLOAD, "50", "recurse"])
    entries, exits, refused = (total(plan, hits, [k])
                               for k in ("eval-entry", "eval-exit", "eval-refused"))
    assert entries == exits + refused
    assert refused == 50


def test_stubs_of_the_inline_engine(interpreter):
    """Each stub of its plan is run, in every way in which they are made: tests/unit/test_inline_plans.c."""
    done = subprocess.run([BUILD / "tests" / "unit" / "test_inline_plans", interpreter.elf], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=300, encoding="utf-8")
    assert done.returncode == 0, done.stdout
    assert "%s: 3.%d" % (interpreter.elf, interpreter.minor) in done.stdout


def test_no_needless_single_step(interpreter):
    """Only YIELD_VALUE, which on some builds has no instruction that the kernel emulates."""
    plan = Plan(interpreter.elf)
    assert plan.status == 0, plan.error
    assert [s.name for s in plan.sites if s.single_step and s.name != "YIELD_VALUE"] == []


@pytest.mark.skipif(not os.path.exists(TOOLS + "/handlers.py"), reason="no experiments to compare with")
def test_handlers_as_found_by_the_experiments(interpreter):
    plan = Plan(interpreter.elf, "uprobe")
    if plan.minor < 11:
        pytest.skip("no opcode handlers are probed")
    text = run([sys.executable, os.path.join(TOOLS, "handlers.py"), interpreter.elf])
    found = {m[1]: (int(m[2], 16), m[3]) for m in re.finditer(
        r"^  (\w+) +\d+  0x(\w+) +\w+ +(\+\d+|SINGLE-STEP)", text, re.M)}
    for name in found.keys() & {site.name for site in plan.sites}:
        handler, distance = found[name]
        at = [site for site in plan.sites if site.name == name and handler <= site.addr < handler + 512]
        assert len(at) == 1, "copies of it lie elsewhere"
        if not at[0].single_step:
            assert at[0].addr == handler + int(distance)
