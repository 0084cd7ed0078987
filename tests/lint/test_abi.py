# SPDX-License-Identifier: Apache-2.0
"""The contract between the BPF programs and user space: sizes asserted, nothing left to a compiler."""
import re
import shutil
import subprocess

import pytest

import source

HEADERS = source.files("bpf/abi/*.h")
COMPILERS = {
    "host": ["gcc", "-I", "bpf"],
    "clang-14": ["clang-14", "-target", "bpf", "-I", "bpf", "-I", "vmlinux"],
    "clang-19": ["clang-19", "-target", "bpf", "-I", "bpf", "-I", "vmlinux"],
}


def shared_structs():
    return [(path, name) for path in HEADERS
            for name in re.findall(r"^struct (\w+) \{", source.text(path), re.M)]


@pytest.mark.parametrize("path, name", shared_structs(), ids=str)
def test_the_size_of_a_record_is_asserted(path, name):
    # Part of another one, whose size is asserted.
    if name in ("pye_str", "pye_walk_frame"):
        return
    assert "_Static_assert(sizeof(struct %s) == " % name in source.text(path)


@pytest.mark.parametrize("compiler", COMPILERS)
def test_both_sides_see_the_same_without_padding(compiler):
    """Every assertion holds, and no hole is filled by the compiler, which would leak the stack."""
    command = COMPILERS[compiler]
    if not shutil.which(command[0]):
        pytest.skip("%s is not installed" % command[0])
    own = [p.name for p in HEADERS if p.name != "types.h"]
    program = '#include "abi/types.h"\n#pragma GCC diagnostic error "-Wpadded"\n'
    program += "".join('#include "abi/%s"\n' % name for name in own)
    done = subprocess.run([*command, "-std=gnu17", "-fsyntax-only" if command[0] != "gcc" else "-c", "-o",
                           "/dev/null", "-x", "c", "-"], cwd=source.ROOT, input=program,
                          stderr=subprocess.PIPE, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr


def test_numbers_are_written_out():
    """A number that a file or a ring carries never depends on the place of its line."""
    for path in HEADERS:
        for name, body in re.findall(r"^enum (\w+) \{(.*?)\}", source.text(path), re.M | re.S):
            names = [n.strip() for n in re.sub(r"/\*.*?\*/", "", body, flags=re.S).split(",") if n.strip()]
            numbers = [re.fullmatch(r"PYE_\w+ = (\d+)", n) for n in names]
            assert all(numbers), (path, name)
            assert len({m[1] for m in numbers}) == len(numbers), (path, name)


def test_counters_keep_their_numbers():
    rows = re.findall(r'^PYE_COUNTER\((\w+), (\d+), ".+"\)$', source.text("bpf/abi/counters.def"), re.M)
    assert [int(number) for _, number in rows] == list(range(len(rows)))
    assert len({name for name, _ in rows}) == len(rows)
