# SPDX-License-Identifier: Apache-2.0
"""Who may include whom. A new edge is a decision: it goes into the table, with a reason in the commit."""
import re

import pytest

import source

# A folder of user/ and those it may include from; every one may include from itself. abi is bpf/abi.
EDGES = {
    "base": "",
    "proc": "base",
    "elf": "base",
    # bytes over HTTP; whose they are and who may have them is its owner's business
    "net": "base",
    "symbol": "base proc elf",
    "cpython": "base proc elf abi",
    # windows on disk: bytes and labels, whatever made them
    "store": "base",
    # it runs in another process: what it writes there is the abi
    "inline": "base proc elf cpython abi",
    "profile": "base",
    "capfile": "base profile",
    # profile: the kinds and reasons of events are the model's, so that nobody translates them
    "capture": "base proc cpython inline profile abi",
    "assemble": "base capture capfile cpython symbol proc profile abi",
    # needs no privilege and no live process: sees neither capture nor cpython
    "decode": "base capfile profile",
    # an exporter knows the model and nothing of where it came from
    "export": "base profile",
    # the same from the other end: what it reads becomes the model
    "import": "base profile",
    # serves bytes; what they are is the command's business
    "view": "base net",
    # what is in a store goes to a server: it reads profiles, and knows nothing of where they came from
    "sink": "base net export import profile store",
    # whose processes these are, by what the API server says; asked in another process
    "kube": "base net",
    # a window is a capture that becomes profiles: after the fact, but for the names of running processes
    "agent": "base kube proc decode export profile store",
    # what it shows is the model; where that came from it does not know
    "tui": "base profile",
    # abi: names the counters in the closing report
    "cmd": "base agent kube sink net store proc view cpython inline capture assemble symbol capfile decode profile export import tui abi",
    "main": "base cmd",
}
# Headers of libraries, and the folders of user/ that may see them.
LIBRARIES = {
    r"libelf\.h|gelf\.h|dwarf\.h|elfutils/": "elf",
    r"bpf/": "capture",
    r".*\.skel\.h": "capture",
    r"capstone/": "cpython",
    r"zstd": "capfile",
    r"zlib\.h": "export import store",
    r"yajl/": "base",
    r"sqlite3\.h": "store",
    r"curl/": "net kube sink",
    r"yaml\.h": "base",
    r"ncurses\.h": "tui",
    r"microhttpd\.h": "net",
}
# What the BPF programs may include, beside themselves.
BPF = r"abi/|lib/|py/|native/|vmlinux\.h|bpf/(bpf_helpers|bpf_tracing|bpf_core_read|bpf_endian)\.h"


def folder(path):
    return path.parts[1] if len(path.parts) > 2 else path.stem


def uses(path):
    """(line, what) of each include: a folder of user/, or abi, or a library's header as it is."""
    for include in source.includes(path):
        first = include.name.split("/")[0]
        own = not include.system and (first in EDGES or first == "abi")
        yield include.line, first if own else include.name


USER = source.files("user/*.[ch]", "user/**/*.[ch]")


@pytest.mark.parametrize("path", USER, ids=str)
def test_a_file_includes_what_its_layer_may(path):
    here = folder(path)
    assert here in EDGES, "a folder that no layer is given for"
    allowed = set(EDGES[here].split()) | {here}
    for line, what in uses(path):
        if what in EDGES or what == "abi":
            assert what in allowed, "%s:%d: %s may not include %s" % (path, line, here, what)
        for pattern, where in LIBRARIES.items():
            if re.match(pattern, what):
                assert here in where.split(), "%s:%d: only %s/ sees %s" % (path, line, where, what)


@pytest.mark.parametrize("path", USER, ids=str)
def test_includes_are_written_from_the_top(path):
    for include in source.includes(path):
        assert ".." not in include.name, "%s:%d" % (path, include.line)
        if not include.system and not include.name.endswith(".skel.h"):
            assert "/" in include.name, "%s:%d: write the folder too" % (path, include.line)


def test_the_layers_have_no_cycle():
    done = set()
    while len(done) < len(EDGES):
        free = {name for name, edges in EDGES.items()
                if name not in done and not set(edges.split()) - done - {"abi"}}
        assert free, "a cycle among %s" % sorted(set(EDGES) - done)
        done |= free


@pytest.mark.parametrize("path", source.files("bpf/*.[ch]", "bpf/**/*.[ch]"), ids=str)
def test_bpf_includes_only_its_own(path):
    for include in source.includes(path):
        if path.parts[1] == "abi" and include.name == "linux/types.h":
            continue  # the host's half of types.h
        assert re.match(BPF, include.name), "%s:%d: %s" % (path, include.line, include.name)


def test_the_table_has_no_edge_that_nobody_uses():
    used = {(folder(path), what) for path in USER for _, what in uses(path)}
    table = {(here, there) for here, edges in EDGES.items() for there in edges.split()}
    unused = table - used
    assert not unused
