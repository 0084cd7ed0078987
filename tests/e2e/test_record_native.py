# SPDX-License-Identifier: Apache-2.0
"""`pyebpf record -n -k`: native and kernel frames between the Python frames, on programs whose mixed stack is known."""
import collections
import gzip
import json
import pathlib
import subprocess

import pytest

import lib

pytestmark = lib.needs_root

PROGRAMS = lib.PROGRAMS / "sampled"
MISSING = "[native frames missing: no frame pointer]"


def samples(name, tmp_path, *options, command=()):
    capture = tmp_path / "s.pyebpf"
    done = lib.sh([lib.BINARY, "record", *options, "-o", capture, "--", *lib.command(name), *command])
    assert done.returncode == 0, lib.text(done.stderr)
    lines = lib.objects(lib.convert(capture))
    found = [e for e in lines if e["ev"] == "sample"]
    assert lines[-1]["written"] == len(found)
    return found, lib.text(done.stderr)


def names(sample):
    return [f["name"] for f in sample["stack"]]


@pytest.fixture(scope="session")
def mixed(tmp_path_factory):
    """The folder of an extension module that has frame pointers, for every interpreter that has a lock."""
    folder = tmp_path_factory.mktemp("mixed")
    subprocess.run(["cc", "-O1", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls", "-shared", "-fPIC",
                    "-o", folder / "mixed.so", PROGRAMS / "mixed.c"], check=True)
    return folder


LOCKED = [n for n in lib.families() if not lib.family(n).endswith("t")]


@pytest.mark.parametrize("name", LOCKED)
def test_python_calls_c_calls_python_calls_c(name, mixed, tmp_path):
    """Where there are frame pointers all the way, the order is the program's; elsewhere the chain ends where they do,
    and says so; the Python frames are all there in any case."""
    found, said = samples(name, tmp_path, "--mode", "cpu", "-n", "-r", "499", command=[PROGRAMS / "mixed.py", mixed, "0.5"])
    python = ["top", "__init__", "callback", "inner"]
    whole = ["top", "__init__", "outer", "mixed_middle", "callback", "inner", "spin", "mixed_spin", "mixed_leaf"]
    kinds = collections.Counter()
    for sample in found:
        stack = names(sample)
        if "mixed_leaf" not in stack:
            continue
        assert [n for n in stack if n in python] == python, stack
        known = [n for n in stack if n in whole or n == MISSING]
        if known == whole:
            kinds["whole"] += 1
        elif known == python + [MISSING, "spin", "mixed_spin", "mixed_leaf"]:
            kinds["cut"] += 1
        else:
            kinds[tuple(known)] += 1
        assert [f.get("kind") for f in sample["stack"] if f["name"].startswith("mixed_")] == \
            ["native"] * sum(n.startswith("mixed_") for n in stack)
    total = sum(kinds.values())
    assert total > 50, kinds
    assert kinds["whole"] + kinds["cut"] >= 0.99 * total, kinds
    if lib.family(name) == "3.15":  # by default it is built with them
        assert kinds["whole"] >= 0.99 * total, kinds
    else:
        assert kinds["cut"] >= 0.99 * total and "broke off at code without frame pointers" in said, (kinds, said)


@pytest.mark.parametrize("name", lib.pick("3.8", "3.11", "3.13"))
def test_c_that_released_the_lock(name, tmp_path):
    """Innermost is the library that does the work; the Python line that called it is there."""
    program = ("import hashlib, time, zlib\ndata = bytes(range(256)) * 8192\nuntil = time.process_time() + 0.6\n"
               "def hashing():\n    hashlib.sha256(data).digest()\ndef packing():\n    zlib.compress(data, 6)\n"
               "while time.process_time() < until:\n    hashing()\n    packing()\n")
    found, _ = samples(name, tmp_path, "--mode", "cpu", "-n", "-r", "499", command=["-c", program])
    leaf = collections.defaultdict(collections.Counter)
    for sample in found:
        stack = sample["stack"]
        python = [f["name"] for f in stack if f.get("kind") is None and not f["name"].startswith("[")]
        if python and python[-1] in ("hashing", "packing"):
            leaf[python[-1]][pathlib.PurePath(stack[-1]["file"]).name.split(".")[0]] += 1
    for function, files in (("hashing", ("libcrypto", "_sha2", "_sha256", "_hashlib")), ("packing", ("libz", "zlib"))):
        seen = leaf[function]
        assert sum(n for f, n in seen.items() if f.startswith(files)) > 0.5 * sum(seen.values()) > 5, leaf


@pytest.mark.parametrize("name", lib.pick("3.9", "3.12"))
def test_the_kernels_frames_are_innermost(name, tmp_path):
    """A thread in system calls: their functions, above the Python frames; waits end in the scheduler."""
    program = ("import os, time\ndef reading(f):\n    os.pread(f, 1 << 20, 0)\ndef waiting():\n    time.sleep(0.02)\n"
               "f = os.open('/dev/zero', os.O_RDONLY)\nuntil = time.process_time() + 0.6\n"
               "while time.process_time() < until:\n    for _ in range(200): reading(f)\n    waiting()\n")
    found, _ = samples(name, tmp_path, "--mode", "wall", "-k", "-r", "499", command=["-c", program])
    on, off = collections.Counter(), collections.Counter()
    for sample in found:
        kinds = [f.get("kind") for f in sample["stack"]]
        assert kinds == sorted(kinds, key=bool) and set(kinds) <= {None, "kernel"}, sample
        stack = names(sample)
        if sample["state"] == "on" and "reading" in stack:
            on["kernel" if "kernel" in kinds else "user"] += 1
        if sample["state"] == "off" and "waiting" in stack and sample["reason"] == "sleep":
            off[stack[-1], any("sleep" in n or "select" in n for n in stack[stack.index("waiting") + 1:])] += 1
    assert on["kernel"] > 20, on
    assert sum(off.values()) > 5 and set(off) == {("__schedule", True)}, off


def test_formats_tell_the_kinds_apart(mixed, tmp_path):
    """Each format by its field's conventions."""
    name = LOCKED[-1]
    capture = tmp_path / "s.pyebpf"
    done = lib.sh([lib.BINARY, "record", "-n", "-k", "-r", "499", "-o", capture, "--", *lib.command(name),
                   PROGRAMS / "mixed.py", mixed, "0.5"])
    assert done.returncode == 0, lib.text(done.stderr)
    collapsed = lib.convert(capture, "collapsed").decode()
    assert ";mixed_spin (" in collapsed and "mixed.so);mixed_leaf (" in collapsed
    assert "_[k]" in collapsed and "__schedule_[k] " in collapsed
    profile = json.loads(gzip.decompress(lib.convert(capture, "firefox")))
    shared, categories = profile["shared"], [c["name"] for c in profile["meta"]["categories"]]
    kinds = collections.defaultdict(set)
    for func, category in zip(shared["frameTable"]["func"], shared["frameTable"]["category"]):
        kinds[shared["stringArray"][shared["funcTable"]["name"][func]]].add(categories[category])
    assert kinds["mixed_spin"] == kinds["mixed_leaf"] == {"Native"} and kinds["__schedule"] == {"Kernel"}
    assert kinds["callback"] == {"User code"}
    path = tmp_path / "x.pb.gz"
    path.write_bytes(lib.convert(capture, "pprof"))
    raw = gzip.decompress(path.read_bytes())
    assert str(mixed / "mixed.so").encode() in raw and b"[kernel]" in raw
    back = lib.sh([lib.BINARY, "convert", path, "-f", "collapsed", "-o", "-"])
    assert back.returncode == 0 and b"callback" in back.stdout and b"mixed_leaf" in back.stdout
