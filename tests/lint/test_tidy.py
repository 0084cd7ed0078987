# SPDX-License-Identifier: Apache-2.0
"""tidy.py looks at a file again whenever anything that clang-tidy would look at has changed."""
import json
import os
import shutil
import subprocess
import sys

import pytest

import source

FIELD = "int sum(int a, int b)\n{\n\treturn a + b;\n}\n"
WRONG = "#define TWICE(a) a * 2\n"


@pytest.mark.skipif(not shutil.which("clang-tidy-14"), reason="no clang-tidy-14")
def test_a_stamp_is_for_what_was_looked_at(tmp_path):
    root = tmp_path / "a tree"
    program, header, build, bin_ = root / "user" / "a.c", root / "user" / "a.h", root / "build", root / "bin"
    for folder in (program.parent, build, bin_):
        folder.mkdir(parents=True)
    program.write_text('#include "a.h"\n' + FIELD)
    (root / ".clang-tidy").write_text((source.ROOT / ".clang-tidy").read_text("utf-8"))
    counts = bin_ / "counts"
    (bin_ / "clang-tidy-14").write_text('#!/bin/sh\necho x >>"%s"\nexec %s "$@"\n' % (counts, shutil.which("clang-tidy-14")))
    (bin_ / "clang-tidy-14").chmod(0o755)
    (build / "compile_commands.json").write_text(json.dumps([
        {"directory": str(build), "command": "/usr/bin/cc -o a.o -c '%s'" % program, "file": str(program)}]))

    def tidy():
        """(exit status, whether clang-tidy looked at the file): it is always asked for its version."""
        counts.write_text("")
        env = {**os.environ, "PYEBPF_CACHE": str(root / "cache"), "PATH": "%s:%s" % (bin_, os.environ["PATH"])}
        done = subprocess.run([sys.executable, source.ROOT / "tests" / "lint" / "tidy.py", build, root], env=env, check=False,
                              stdout=subprocess.PIPE, encoding="utf-8")
        assert ("bugprone-macro-parentheses" in done.stdout) == bool(done.returncode), done.stdout
        return done.returncode, len(counts.read_text().split()) > 1

    header.write_text("\n")
    assert [tidy(), tidy()] == [(0, True), (0, False)]
    header.write_text(WRONG)
    assert [tidy(), tidy()] == [(1, True), (1, True)], "a finding leaves no stamp"
    header.write_text(WRONG.replace("a * 2", "((a) * 2)"))
    assert [tidy(), tidy()] == [(0, True), (0, False)]
    (root / ".clang-tidy").write_text((root / ".clang-tidy").read_text() + "# other rules\n")
    assert [tidy(), tidy()] == [(0, True), (0, False)]
    header.write_text("\n")
    (root / ".clang-tidy").write_text((source.ROOT / ".clang-tidy").read_text("utf-8"))
    assert tidy() == (0, False), "as it was in the beginning"
