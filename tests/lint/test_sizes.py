# SPDX-License-Identifier: Apache-2.0
"""Files and functions stay small. Every large one was once small."""
import pytest

import source

FILE, BPF_FILE, HEADER, FUNCTION, MAIN = 800, 500, 250, 100, 60
# {path or path:function: (its own limit, why)}
ALLOWED = {}

SOURCES = source.files("user/*.[ch]", "user/**/*.[ch]", "bpf/*.[ch]", "bpf/**/*.[ch]", "bench/*.[ch]")
# Tests may be long, their functions may not.
FILES = SOURCES + source.files("tests/**/*.[ch]")



def file_limit(path):
    """A .bpf.h holds code, like a .bpf.c: walkers, so that the host's tests can build them too."""
    if path.name.endswith((".bpf.c", ".bpf.h")):
        return BPF_FILE
    return HEADER if path.suffix == ".h" else FILE


def limit(key, usual):
    return ALLOWED.get(key, (usual, ""))[0]


@pytest.mark.parametrize("path", SOURCES, ids=str)
def test_a_file_is_small(path):
    lines = source.code_lines(path)
    most = limit(str(path), file_limit(path))
    assert lines <= most, "%s has %d lines, the limit is %d: split it by responsibility" % (path, lines, most)


@pytest.mark.parametrize("path", FILES, ids=str)
def test_a_function_is_small(path):
    for function in source.functions(path):
        usual = MAIN if function.name == "main" else FUNCTION
        most = limit("%s:%s" % (path, function.name), usual)
        assert function.lines <= most, "%s:%d: %s() has %d lines, the limit is %d" % (
            path, function.line, function.name, function.lines, most)


def test_exceptions_have_a_reason_and_are_needed():
    for key, (most, why) in ALLOWED.items():
        path, _, name = key.partition(":")
        assert why and (source.ROOT / path).exists(), key
        sizes = [f.lines for f in source.functions(path) if f.name == name] or [source.code_lines(path)]
        assert most >= max(sizes) > most // 2, "%s: has %d by now" % (key, max(sizes))


def test_functions_are_found():
    found = {function.name for function in source.functions("user/main.c")}
    assert {"main", "find_command", "print_commands"} <= found
