# SPDX-License-Identifier: Apache-2.0
"""Large inputs: memory is for distinct stacks, not for bytes, and --max-input bounds it; --full-filenames beside it."""
import gzip
import json
import os
import random
import subprocess

import pytest

from made import PYEBPF, Script, peak_kb
from test_renamed import ok

FORMATS = ["x.json.gz", "x.pb.gz", "x.folded", "x.speedscope.json.gz", "x.svg"]


def convert(*args):
    """(exit status, what it said)"""
    done = subprocess.run([PYEBPF, *map(str, args)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    return done.returncode, done.stderr.decode()


def folded(count, seed=1):
    """So many different stacks."""
    pick = random.Random(seed)
    return "".join(";".join("f%d (/srv/app/m%d.py:%d)" % (n, n % 9, n) for n in pick.choices(range(300), k=12)) + " 3\n"
                   for _ in range(count)).encode()


def varint(n):
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes([*out, n])


def field(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data if isinstance(data, bytes) else varint(number << 3) + varint(data)


def pprof_parts(count, parts=1):
    """Its beginning; its samples, in as many parts; its strings."""
    pick = random.Random(2)
    texts = ["", "cpu", "nanoseconds", *("f%d" % n for n in range(1, 301)), "/srv/app/m.py"]
    head = field(1, field(1, 1) + field(2, 2))
    for n in range(1, 301):
        head += field(5, field(1, n) + field(2, n + 2) + field(4, len(texts) - 1))
        head += field(4, field(1, n) + field(4, field(1, n)))
    ids = [varint(n) for n in range(1, 301)]
    samples = [b"".join(field(2, field(1, b"".join(pick.choices(ids, k=12))) + field(2, varint(5)))
                        for _ in range(count // parts)) for _ in range(parts)]
    return head, samples, b"".join(field(6, text.encode()) for text in texts)


def pprof(times, count):
    """The same samples several times over."""
    head, samples, tail = pprof_parts(count)
    return head + times * samples[0] + tail


@pytest.mark.parametrize("data", [folded(1000) * 60, pprof(1500, 1000)], ids=["collapsed", "pprof"])
def test_memory_is_not_for_bytes(data, tmp_path):
    """A few stacks again and again, in an input that is larger than the memory."""
    (tmp_path / "in").write_bytes(data)
    assert len(data) > 16 << 20
    code, said = convert("convert", "-q", "--max-input", "9M", tmp_path / "in", "-o", tmp_path / "x.folded")
    assert code == 0 and (tmp_path / "x.folded").stat().st_size < 2 << 20, said


# (bytes of input, different samples): PYEBPF_LONG has a gigabyte in which hardly two are alike
SIZES = [(50 << 20, 10000), *[(10**9, 2 << 20)] * bool(os.environ.get("PYEBPF_LONG"))]


@pytest.fixture(scope="module", params=SIZES, ids=["%d MB" % (size >> 20) for size, _ in SIZES])
def big(request, tmp_path_factory):
    """(path, bytes): gzip of a profile, in members as large writers make them"""
    size, count = request.param
    path = tmp_path_factory.mktemp("big") / "x.pb.gz"
    path.write_bytes(b"")
    written = part = 0
    head, parts, tail = pprof_parts(count, count // 10000)
    with path.open("ab") as f:
        f.write(gzip.compress(head, 1))
        parts = [(len(samples), gzip.compress(samples, 1)) for samples in parts]
        while written < size:
            f.write(parts[part][1])
            written += parts[part][0]
            part = (part + 1) % len(parts)
        f.write(gzip.compress(tail, 1))
    return path, written


@pytest.mark.parametrize("verb", ["convert", "stats", "merge"])
def test_the_whole_takes_less_than_its_bytes(verb, big, tmp_path):
    """What the kernel says was the most that the process had, against the bytes of the profile."""
    path, size = big
    args = [path, "-o", tmp_path / "x.folded"] if verb != "stats" else [path]
    assert peak_kb(verb, *args) * 1024 < size


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    path = tmp_path_factory.mktemp("large") / "x.folded"
    path.write_bytes(folded(12000))
    return path


@pytest.mark.parametrize("name", FORMATS)
def test_memory_has_a_limit_in_every_format(name, large, tmp_path):
    given = tmp_path / name
    if name == "x.svg":
        given = large
    else:
        ok("convert", "-q", large, "-o", given)
    code, said = convert("convert", "-q", "--max-input", "3M", given, "-o", tmp_path / "out.folded")
    assert code == 2 and "takes more than 3 MB of memory (--max-input)" in said and given.name in said, said
    assert not (tmp_path / "out.folded").exists()
    assert convert("convert", "-q", "--max-input", "0", given, "-o", tmp_path / "out.folded")[0] == 0


def test_a_bomb_is_none(tmp_path):
    """Gzip of much more than its size."""
    with gzip.open(tmp_path / "x.folded.gz", "wb") as f:
        for _ in range(60):
            f.write(b"a;b;c 1\n" * 100000)
    code, said = convert("stats", tmp_path / "x.folded.gz", "--max-input", "9M")
    assert code == 0, said


def strangers(kind, path, size, name_bytes):
    """A profile of hardly anything but names: each function is in one sample. Returns the ns of all samples."""
    pad, n, total = b"x" * name_bytes, 0, 0
    with path.open("wb") as f:
        if kind == "pprof":
            f.write(b"".join(field(6, text) for text in (b"", b"cpu", b"nanoseconds")) + field(1, field(1, 1) + field(2, 2)))
        while f.tell() < size:
            rows = range(n, n + 2000)
            if kind == "pprof":
                f.write(b"".join(field(6, b"f%d%s" % (i, pad)) + field(5, field(1, i + 1) + field(2, i + 3) + field(4, 1)) +
                                 field(4, field(1, i + 1) + field(4, field(1, i + 1))) + field(2, field(1, i + 1) + field(2, i % 9 + 1))
                                 for i in rows))
            else:
                f.write(b"".join(b"main;f%d%s %d\n" % (i, pad, i % 9 + 1) for i in rows))
            n += len(rows)
            total += sum(i % 9 + 1 for i in rows)
    return total if kind == "pprof" else total * 10**7


# (bytes of input, of a name, of memory): PYEBPF_LONG has a gigabyte with millions of them
NAMES = [(240 << 20, 3000, 440 << 20), *[(10**9, 80, 10**9)] * bool(os.environ.get("PYEBPF_LONG"))]


@pytest.mark.parametrize("size, name_bytes, memory", NAMES, ids=["%d MB" % (size >> 20) for size, _, _ in NAMES])
@pytest.mark.parametrize("kind", ["pprof", "collapsed"])
def test_more_names_than_memory(kind, size, name_bytes, memory, tmp_path):
    """The first have their names, the others one for all; sums are right. Without that 240 MB would take three times as much."""
    given, out = tmp_path / "in", tmp_path / "x.folded"
    total = strangers(kind, given, size, name_bytes)
    code, said = convert("convert", "-q", given, "-o", out)
    assert code == 0 and "more names than are shown of one" in said and "[other names]" in said, said
    for command in (["convert", "-q", given, "-o", tmp_path / "y.pb.gz"], ["stats", given], ["merge", "-q", given, "-o", tmp_path / "y.folded"]):
        assert peak_kb(*command) * 1024 < memory, command
    for path in (out, tmp_path / "y.folded"):
        lines = path.read_text().splitlines()
        assert sum(int(line.rpartition(" ")[2]) for line in lines) == total
        assert any(";f0xxx" in line for line in lines) and any("[other names]" in line for line in lines)


@pytest.mark.parametrize("verb", ["stats", "merge", "diff"])
def test_the_other_verbs_have_it(verb, large, tmp_path):
    more = {"stats": [], "merge": [large, "-o", tmp_path / "x.folded"], "diff": [large]}[verb]
    code, said = convert(verb, large, *more, "--max-input", "3M")
    assert code == 2 and "--max-input" in said


@pytest.fixture(scope="module")
def stdlib(tmp_path_factory):
    s = Script()
    s.process(1, 7, "x")
    s.thread(1, 1, 7, "x")
    s.func(1, 1, 5, "main", "/srv/app/main.py")
    s.func(2, 1, 9, "loads", "/usr/lib/python3.11/json/__init__.py")
    s.call(1, 10, 1)
    s.call(1, 20, 2)
    s.return_(1, 500)
    s.return_(1, 1000)
    return s.write(tmp_path_factory.mktemp("stdlib") / "x.pyebpf")


WHOLE = "/usr/lib/python3.11/json/__init__.py"


@pytest.mark.parametrize("name", ["collapsed", "svg", "text", "firefox", "pprof", "speedscope", "chrometrace", "pstats", "ndjson",
                                  "html"])
def test_full_filenames_in_every_format(name, stdlib):
    from test_renamed import uncompressed  # pylint: disable=import-outside-toplevel
    short = uncompressed(ok("convert", "-q", stdlib, "-f", name, "-o", "-")).decode("utf-8", "replace")
    whole = uncompressed(ok("convert", "-q", "--full-filenames", stdlib, "-f", name, "-o", "-")).decode("utf-8", "replace")
    assert WHOLE in whole and "/srv/app/main.py" in whole
    assert (WHOLE not in short) == (name in ("collapsed", "svg", "text", "chrometrace"))


def test_full_filenames_in_tables(stdlib, tmp_path):
    for args in (["stats", stdlib], ["diff", stdlib, stdlib]):
        assert WHOLE not in ok(*args).decode() and WHOLE in ok(*args, "--full-filenames").decode()
    rows = [json.loads(ok("stats", stdlib, "--json", *more))["rows"] for more in ([], ["--full-filenames"])]
    assert rows[0] == rows[1] and {row["module"] for row in rows[0]} == {"json", "main"}
    by_module = ok("stats", stdlib, "--by", "module", "--full-filenames").decode()
    assert " json " in by_module.replace("(", " ") and WHOLE in by_module
    ok("merge", "-q", stdlib, stdlib, "--full-filenames", "-o", tmp_path / "x.folded")
    assert WHOLE in (tmp_path / "x.folded").read_text()
