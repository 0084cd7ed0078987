# SPDX-License-Identifier: Apache-2.0
"""Every BPF program loads on this kernel, made by each compiler and the old way too, and none of them
has become much larger for the verifier. PYEBPF_UPDATE=1 writes insns.txt anew."""
import os
import pathlib
import shutil
import subprocess

import pytest

import pythons
from ndjson import ENTER, LEAVE, events

pytestmark = pytest.mark.needs_root

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
INSNS = HERE / "insns.txt"
GROWTH = 1.2
# Of a chain of calls, each function's rounded up to 32. This kernel allows more: it counts less.
STACK_LIMIT = 512
COMPILERS = ("clang-14", "clang-19")
WAYS = ("newest", "classic")
PROGRAM = ROOT / "tests" / "accept" / "workloads" / "generators.py"


def build_with(compiler):
    """A build of its own, kept in the build folder: the second time there is little to do."""
    if not shutil.which(compiler):
        pytest.skip(compiler + " is not installed")
    build = pythons.BUILD / ("bpf-" + compiler)
    configure = ["cmake", "-S", ROOT, "-B", build, "-G", "Ninja", "-DPYEBPF_BPF_CLANG=" + compiler,
                 "-DPYEBPF_WERROR=ON"]  # as in the preset dev: all but the programs is in the cache of scripts/test
    compile_it = ["cmake", "--build", build, "--target", "pyebpf", "bpf_load"]
    for command in (configure, compile_it):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              encoding="utf-8", check=False)
        assert done.returncode == 0, done.stdout[-4000:]
    return build


@pytest.fixture(scope="session")
def builds():
    made = {}

    def get(compiler):
        if compiler not in made:
            made[compiler] = build_with(compiler)
        return made[compiler]
    return get


def kernel():
    """6.18 of 6.18.44: what the verifier goes through differs between kernels."""
    return ".".join(os.uname().release.split(".")[:2])


def load(build, way):
    """{program: (instructions, instructions that the verifier went through, bytes of stack)}"""
    command = [build / "tests" / "bpf" / "bpf_load"] + ["--classic"] * (way == "classic")
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
                          check=False)
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines() if not line.startswith("#")]
    return {row[0]: tuple(map(int, row[1:4])) for row in rows}


def read_known():
    known = {}
    for line in INSNS.read_text().splitlines():
        if line and not line.startswith("#"):
            words = line.split()
            known[tuple(words[:4])] = tuple(map(int, words[4:]))
    return known


def write_known(known):
    head = [line for line in INSNS.read_text().splitlines() if line.startswith("#")]
    rows = [" ".join(key) + " %d %d %d" % known[key] for key in sorted(known)]
    INSNS.write_text("\n".join(head + rows) + "\n")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("compiler", COMPILERS)
def test_loads_and_has_not_grown(builds, compiler, way):
    loaded = load(builds(compiler), way)
    assert not {program: counts[2] for program, counts in loaded.items() if counts[2] > STACK_LIMIT}
    known = read_known()
    mine = (kernel(), compiler, way)
    if os.environ.get("PYEBPF_UPDATE"):
        known = {key: value for key, value in known.items() if key[:3] != mine}
        known.update({mine + (program,): counts for program, counts in loaded.items()})
        write_known(known)
    before = {key[3]: value for key, value in known.items() if key[:3] == mine}
    if not before:
        pytest.skip("insns.txt has no counts for kernel %s: PYEBPF_UPDATE=1 adds them" % kernel())
    assert sorted(loaded) == sorted(before), "insns.txt names other programs: PYEBPF_UPDATE=1"
    grown = {program: "%s to %s" % (before[program], counts) for program, counts in loaded.items()
             if any(new > old * GROWTH + 50 for new, old in zip(counts, before[program]))}
    assert not grown


def seen(build, tmp_path, python):
    capture = tmp_path / (build.name + ".pyebpf")
    binary = str(build / "pyebpf")
    subprocess.run([binary, "trace", "-q", "-o", capture, "--"] + python + [PROGRAM],
                   stdout=subprocess.DEVNULL, check=True)
    return [(e["ev"], e["func"], e["line"], e["depth"]) for e in events(binary, str(capture))
            if e["ev"] in ENTER | LEAVE and e["file"] == str(PROGRAM)]


def test_compilers_make_the_same_trace(builds, tmp_path, any_python):
    traces = [seen(builds(compiler), tmp_path, any_python.command) for compiler in COMPILERS]
    assert traces[0] and traces[0] == traces[1]
