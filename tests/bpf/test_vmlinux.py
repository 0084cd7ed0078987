# SPDX-License-Identifier: Apache-2.0
"""vmlinux.h has what the programs touch and nothing else, and it fits the running kernel."""
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BTF = pathlib.Path("/sys/kernel/btf/vmlinux")
SOURCES = sorted((ROOT / "bpf").glob("*.bpf.c")) + sorted((ROOT / "bpf").glob("*/*"))

needs_btf = pytest.mark.skipif(not BTF.exists(), reason="this kernel has no BTF")


def regen(folder, *args):
    return subprocess.run([sys.executable, folder / "regen", *args], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, encoding="utf-8", check=False)


@pytest.fixture
def copy(tmp_path):
    shutil.copytree(ROOT / "vmlinux", tmp_path / "vmlinux")
    return tmp_path / "vmlinux"


def replace(folder, old, new):
    text = (folder / "vmlinux.h").read_text()
    assert old in text
    (folder / "vmlinux.h").write_text(text.replace(old, new))


@needs_btf
def test_fits_this_kernel():
    done = regen(ROOT / "vmlinux", "--check")
    assert (done.returncode, done.stderr) == (0, "")


@needs_btf
def test_regenerating_keeps_the_fields(copy):
    """Types may be called otherwise on another kernel, but what is there stays, in its order."""
    def fields():
        return re.findall(r"^\t.*?(\w+)(?:\[\d+\])?;$", (copy / "vmlinux.h").read_text(), re.M)
    before = fields()
    assert regen(copy).returncode == 0
    once = (copy / "vmlinux.h").read_text()
    assert fields() == before
    assert regen(copy, "--output", "-").stdout == once
    assert regen(copy, "--check").returncode == 0


@needs_btf
@pytest.mark.parametrize("old, new, said", [
    ("int exit_code;", "int exit_code;\n\tint never_there;", "the kernel has no task_struct.never_there"),
    ("int exit_code;", "u64 exit_code;", "task_struct.exit_code has another type in the kernel"),
    ("char comm[16];", "char *comm;", "task_struct.comm has another type in the kernel"),
    ("int counter;", "int count;", "the kernel has no signal_struct.live.count"),
    ("struct signal_struct {", "struct signal_strict {", "the kernel has no struct signal_strict"),
])
def test_names_what_does_not_fit(copy, old, new, said):
    replace(copy, old, new)
    done = regen(copy, "--check")
    assert done.returncode == 1
    assert said in done.stderr


@needs_btf
def test_takes_a_new_field_with_its_type(copy):
    replace(copy, "int exit_code;", "int exit_code;\n\tint utime;\n\tint mm;\n\tint flags;")
    assert regen(copy).returncode == 0
    text = (copy / "vmlinux.h").read_text()
    for line in ("u64 utime;", "struct mm_struct *mm;", "unsigned int flags;"):
        assert "\t%s\n" % line in text


@pytest.mark.parametrize("content", [b"", b"\x9f\xeb", b"\x9f\xeb\x01\x00" + 60 * b"\xff", b"ELF"])
def test_refuses_what_is_no_btf(copy, tmp_path, content):
    (tmp_path / "btf").write_bytes(content)
    done = regen(copy, tmp_path / "btf")
    assert done.returncode == 2
    assert "no BTF" in done.stderr


def test_programs_include_only_this_of_the_kernel():
    allowed = re.compile(r'"(vmlinux\.h|(abi|lib|py|native)/\w+(\.bpf)?\.(h|def))"|<bpf/bpf_\w+\.h>|<linux/types\.h>')
    for source in SOURCES:
        for included in re.findall(r"^#include (\S+)", source.read_text(), re.M):
            assert allowed.fullmatch(included), (source, included)


def test_has_no_field_that_nobody_touches():
    header = (ROOT / "vmlinux" / "vmlinux.h").read_text()
    part = header.split("/* regen: begin */")[1].split("/* regen: end */")[0]
    code = "\n".join(source.read_text() for source in SOURCES)
    for name in re.findall(r"^\t.*?(\w+)(?:\[\d+\])?;$", part, re.M):
        assert re.search(r"\b%s\b" % name, code), name
