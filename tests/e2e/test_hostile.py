# SPDX-License-Identifier: Apache-2.0
"""Targets made to mislead: files that lie and processes that forge an interpreter's memory. What is wanted is
a clear refusal, or the plan of the honest file: never a probe at another place, a hang or much memory."""
import functools
import json
import os
import pathlib
import re
import struct
import subprocess

import pytest

import lib
import pythons

pytestmark = [pytest.mark.needs_root,
              pytest.mark.skipif(os.uname().machine != "x86_64", reason="plans are for x86-64")]
SOURCE = pathlib.Path(__file__).parent / "targets" / "hostile.c"
LAYOUTS = pathlib.Path(__file__).parents[2] / "user" / "cpython"
ABSURD = (0, 1, 0x7fffffffffffffff, 0xffffffffffffffff)
MEMORY_BYTES = 400 << 20
SANITIZED = "build-asan" in str(pythons.BUILD)


# --- the honest files ---

def static_python(*wanted):
    """Interpreters that hold their loop themselves, at fixed addresses or not."""
    names = [n for n in pythons.names() if n in wanted and n in pythons.found()]
    return names or pytest.skip("none of %s is here" % ", ".join(wanted))


def file_of(name):
    """The file with the interpreter loop."""
    return pathlib.Path(os.path.realpath(lib.executable(name)))


def look(*args):
    """(exit status, stdout, stderr, CPU seconds) of `list`, which gets so much memory and no more. (Its own account of that,
    ru_maxrss, begins with ours.)"""
    limit = [] if SANITIZED else ["prlimit", "--data=%d" % MEMORY_BYTES]
    with subprocess.Popen([*limit, lib.BINARY, "list", *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          stdin=subprocess.DEVNULL, encoding="utf-8", errors="replace") as process:
        out, err = process.stdout.read(), process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, out, err, usage.ru_utime + usage.ru_stime


def sites(text):
    """{(address, kind, semaphore)} of a probe plan as it is printed."""
    return set(re.findall(r"^  (0x[0-9a-f]+) +0x[0-9a-f]+ +(\S+) .*?(semaphore=\S+)?$", text, re.M))


class Elf:
    """A copy of an ELF file, to be spoilt."""

    def __init__(self, path):
        self.data = bytearray(pathlib.Path(path).read_bytes())
        self.shoff, = struct.unpack_from("<Q", self.data, 40)
        self.shnum, self.shstrndx = struct.unpack_from("<HH", self.data, 60)
        self.sections = {}
        names = self.section(self.shstrndx)[3]
        for i in range(self.shnum):
            head = self.section(i)
            start = names + struct.unpack_from("<I", self.data, head[0])[0]
            self.sections[self.data[start:self.data.index(0, start)].decode()] = head

    def section(self, index):
        """(offset of its header, type, address, offset, size)"""
        at = self.shoff + 64 * index
        kind, = struct.unpack_from("<I", self.data, at + 4)
        return (at, kind, *struct.unpack_from("<QQQ", self.data, at + 16))

    def put(self, offset, value, form="<Q"):
        struct.pack_into(form, self.data, offset, value & (1 << 8 * struct.calcsize(form)) - 1)
        return self

    def symbols(self, name):
        """Offsets of the entries of a symbol, in each table that has it."""
        for table, strings in ((".dynsym", ".dynstr"), (".symtab", ".strtab")):
            if table in self.sections and strings in self.sections:
                _, _, _, start, size = self.sections[table]
                names = self.sections[strings][3]
                for at in range(start, start + size, 24):
                    text = names + struct.unpack_from("<I", self.data, at)[0]
                    if self.data[text:text + len(name) + 1] == name.encode() + b"\0":
                        yield at

    def value(self, name):
        return struct.unpack_from("<Q", self.data, next(self.symbols(name)) + 8)[0]

    def move(self, name, value):
        for at in list(self.symbols(name)):
            self.put(at + 8, value)
        return self

    def offset(self, address):
        """File offset of a virtual address."""
        phoff, = struct.unpack_from("<Q", self.data, 32)
        for at in range(phoff, phoff + 56 * struct.unpack_from("<H", self.data, 56)[0], 56):
            kind, _, offset, start, _, size = struct.unpack_from("<IIQQQQ", self.data, at)
            if kind == 1 and start <= address < start + size:
                return address - start + offset
        raise KeyError(hex(address))

    def write(self, folder):
        path = pathlib.Path(folder) / "spoilt"
        path.write_bytes(self.data)
        return path


_honest = {}


@functools.cache
def engines_of(path):
    return [name for name in ("uprobe", "usdt") if look("--engine", name, "--probes", path)[0] == 0]


def honest(path, engine="auto"):
    """(sites, CPU seconds) of a file as it is."""
    if (path, engine) not in _honest:
        code, out, err, cpu = look("--engine", engine, "--probes", path)
        assert code == 0 and sites(out), err
        _honest[path, engine] = sites(out), cpu
    return _honest[path, engine]


def assert_harmless(spoilt, original, engine="auto", refused=False):
    """Refused in one sentence, or the honest plan; in bounded time and memory. The refusal's text, or None."""
    plan, cpu = honest(original, engine)
    if engine == "auto":  # which falls back to the other engine
        for name in engines_of(original):
            plan = plan | honest(original, name)[0]
    code, out, err, took = look("--engine", engine, "--probes", spoilt)
    assert took < 20 * cpu + 1, (took, cpu)
    assert "memory" not in err
    if code == 0 and not refused:
        assert sites(out) <= plan, (sites(out) - plan, plan)
        return None
    assert code in (2, 4, 5), (code, out, err)
    lines = err.splitlines()
    assert 1 <= len(lines) <= 2 and lines[0].startswith("pyebpf list: ") and len(lines[0]) < 800, err
    assert "crashed" not in err and "makes no sense" not in err.split(": ")[-1] or "segments" in err, err
    return lines[0]


# --- processes ---

@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    program = tmp_path_factory.mktemp("hostile") / "hostile"
    subprocess.run(["cc", "-O1", "-Wall", "-Wno-int-to-pointer-cast", "-fPIE", "-pie", "-o", program, SOURCE], check=True)
    return program


def code_of(pid, file):
    """{start: bytes} of the code of a file as a process has it now."""
    maps = pathlib.Path("/proc/%d/maps" % pid).read_text("utf-8", "surrogateescape")
    found = {}
    with open("/proc/%d/mem" % pid, "rb") as memory:
        for start, end in re.findall(r"^([0-9a-f]+)-([0-9a-f]+) r-xp .* %s$" % re.escape(str(file)), maps, re.M):
            memory.seek(int(start, 16))
            found[int(start, 16)] = memory.read(min(int(end, 16) - int(start, 16), 64 << 20))
    assert found
    return found


class Seen:
    """What `trace -p` did to a process: its exit status, what it said, and the addresses of its probes."""

    def __init__(self, pid, file, folder, seconds="400ms"):
        before = code_of(pid, file)
        out = pathlib.Path(folder) / "x.ndjson"
        out.unlink(missing_ok=True)
        with lib.started([lib.BINARY, "trace", "-q", "-d", seconds, "-o", out, "-p", pid],
                         stderr=subprocess.PIPE) as process:
            during = set()
            while process.poll() is None:
                during |= set(self.changed(before, code_of(pid, file)))
            self.said = lib.text(process.stderr.read())
            _, self.code = process.communicate(), process.returncode
        self.probed = {hex(at) for at in during}
        self.events = out.read_text("utf-8") if out.exists() else ""
        assert not list(self.changed(before, code_of(pid, file))), "something was left behind"

    @staticmethod
    def changed(before, now):
        for start, code in before.items():
            if code != now[start]:
                yield from (start + i for i, (a, b) in enumerate(zip(code, now[start])) if a != b)


# --- symbols and tables that point into instructions ---

SYMBOLS = ("_PyEval_EvalFrameDefault", "PyCode_Type", "_PyRuntime", "Py_Version", "PyGen_Type", "_Py_Dealloc",
           "_PyEval_FrameClearAndPop", "_Py_CheckFunctionResult")


@pytest.mark.parametrize("name", ["3.9-bullseye", "3.11-debian", "3.13-trixie", "3.15-sid"])
def test_symbols_into_instructions(name, tmp_path):
    if name not in pythons.found():
        pytest.skip("%s is not here" % name)
    file, moved = file_of(name), 0
    for symbol in SYMBOLS:
        if not list(Elf(file).symbols(symbol)):
            continue
        value = Elf(file).value(symbol)
        for lie in (value + 1, value + 3, *ABSURD[2:]):
            assert_harmless(Elf(file).move(symbol, lie).write(tmp_path), file)
            moved += 1
    assert moved >= 8


def table_of(file):
    return int(re.search(r"dispatch table (0x[0-9a-f]+)", look("--probes", file)[1])[1], 16)


@pytest.mark.parametrize("op", [151, 150, 83, 86, 1, 100])
def test_a_dispatch_table_into_instructions(op, tmp_path):
    """3.11: RESUME, RESUME_QUICK, RETURN_VALUE, YIELD_VALUE and two that no probe is in."""
    name, = static_python("3.11-debian")
    file = file_of(name)
    at = Elf(file).offset(table_of(file)) + 8 * op
    handler, = struct.unpack_from("<Q", Elf(file).data, at)
    for lie in (handler + 1, handler + 2, handler - 1, table_of(file), 0x400000, *ABSURD):
        assert_harmless(Elf(file).put(at, lie).write(tmp_path), file)
    for lie in (table_of(file), *ABSURD):  # no code at all
        assert assert_harmless(Elf(file).put(at, lie).write(tmp_path), file, refused=op in (151, 83)) or op not in (151, 83)


def test_a_deallocator_in_an_instruction(tmp_path):
    name, = static_python("3.11-debian")
    file = file_of(name)
    at = Elf(file).offset(Elf(file).value("PyCode_Type")) + 48
    dealloc, = struct.unpack_from("<Q", Elf(file).data, at)
    assert (hex(dealloc), "code-dealloc", "") in honest(file)[0]
    for lie in (dealloc + 1, dealloc - 1, *ABSURD):
        said = assert_harmless(Elf(file).put(at, lie).write(tmp_path), file, refused=True)
        assert re.search("not an instruction start|not in executable code|code_dealloc|code object|dealloc", said), said


# --- lying notes and tables of the file ---

@pytest.mark.parametrize("what", ["name", "description", "type", "provider", "address", "semaphore"])
def test_lying_notes(what, tmp_path):
    """The USDT notes of 3.9; the first is spoilt, and each of them."""
    name = next((n for n in pythons.names() if n == "3.9-bullseye"), None) or pytest.skip("no USDT build")
    file, spoilt = file_of(name), 0
    elf = Elf(file)
    _, _, _, at, size = elf.sections[".note.stapsdt"]
    end = at + size
    while at < end:
        names, description, _ = struct.unpack_from("<III", elf.data, at)
        body = at + 12 + (names + 3 & ~3)
        place, form = {"name": (at, "<I"), "description": (at + 4, "<I"), "type": (at + 8, "<I"),
                       "provider": (body + 24, "<Q"), "address": (body, "<Q"), "semaphore": (body + 16, "<Q")}[what]
        old, = struct.unpack_from(form, elf.data, place)
        for lie in (old + 1, *ABSURD[2:]) if spoilt < 12 else (old + 1,):
            assert_harmless(Elf(file).put(place, lie, form).write(tmp_path), file, "usdt")
        spoilt += 1
        at = body + (description + 3 & ~3)
        if spoilt >= 16:
            break
    assert spoilt >= 4


@pytest.mark.parametrize("section", [".dynsym", ".dynstr", ".rodata", ".text", ".eh_frame", ".data", ".rela.dyn",
                                     ".note.stapsdt", ".shstrtab"])
def test_lying_sections(section, tmp_path):
    file = file_of(static_python("3.9-bullseye", "3.11-debian")[0])
    if section not in Elf(file).sections:
        pytest.skip("it has no such section")
    head = Elf(file).sections[section][0]
    for field in (16, 24, 32):  # address, offset, size
        for lie in ABSURD:
            assert_harmless(Elf(file).put(head + field, lie).write(tmp_path), file)


def test_a_lying_header(tmp_path):
    file = file_of(static_python("3.11-debian", "3.9-bullseye")[0])
    for field, form in ((32, "<Q"), (40, "<Q"), (54, "<H"), (56, "<H"), (58, "<H"), (60, "<H"), (62, "<H")):
        for lie in ABSURD:
            assert_harmless(Elf(file).put(field, lie, form).write(tmp_path), file)


def test_lying_segments_of_a_process(hostile, tmp_path):
    """A segment said to be elsewhere moves all addresses; what is mapped then is not what the file says."""
    file = file_of(static_python("3.11-debian")[0])
    elf = Elf(file)
    phoff, = struct.unpack_from("<Q", elf.data, 32)
    code = next(at for at in range(phoff, phoff + 56 * 32, 56) if struct.unpack_from("<II", elf.data, at) == (1, 5))
    for field in (8, 16, 32):  # offset, address, size
        for lie in (*ABSURD, 0x500000):
            assert_harmless(Elf(file).put(code + field, lie).write(tmp_path), file)


# --- processes ---

def test_a_process_that_only_maps_an_interpreter(hostile, tmp_path):
    """The honest case of the tests below: probes at the places of the plan, and nowhere else."""
    file = file_of(static_python("3.11-debian")[0])
    with pythons.running([hostile, file]) as (process, said):
        assert said == b"ready\n"
        seen = Seen(process.pid, file, tmp_path, "1500ms")
    assert seen.code == 0, seen.said
    assert seen.probed and seen.probed <= {site[0] for site in honest(file)[0]}


@pytest.mark.parametrize("name, lie, why", [
    ("3.13-clang", (0, 0x1234), "its memory has no _Py_DebugOffsets where its file has them"),
    ("3.13-clang", (8, 0x030c01f0), "but its memory says version 0x030c01f0"),
    ("3.15-sid", (8, 0xffffffffffffffff), "but its memory says version|no _Py_DebugOffsets"),
    ("3.13t", (16, 0), "but its memory says version|no _Py_DebugOffsets"),
])
def test_a_forged_runtime(hostile, tmp_path, name, lie, why):
    if name not in pythons.found():
        pytest.skip("%s is not here" % name)
    file = file_of(name)
    elf = Elf(file)
    bias = 0x10000000000 if elf.data[16] == 3 else 0
    runtime = int(re.search(r"_PyRuntime (0x[0-9a-f]+)", look("--probes", file)[1])[1], 16)
    with pythons.running([hostile, file, "poke", hex(bias + runtime + lie[0]), hex(lie[1])]) as (process, said):
        assert said == b"ready\n"
        seen = Seen(process.pid, file, tmp_path)
        code, out, _, _ = look("--json", process.pid)
    assert seen.code == 5 and re.search(why, seen.said), seen.said
    assert len(seen.said.splitlines()) <= 2 and not seen.probed
    row, = json.loads(out)
    assert code == 0 and not row["supported"] and re.search(why, row["why_not"])


def test_code_that_is_not_the_files(hostile, tmp_path):
    """The file is written over while it is mapped, at the place of a probe."""
    original = file_of(static_python("3.11-debian")[0])
    file = Elf(original).write(tmp_path)
    at = Elf(original).offset(int(sorted(honest(original)[0])[0][0], 16))
    with pythons.running([hostile, file]) as (process, _):
        private = "/proc/%d/mem" % process.pid
        with open(private, "r+b", 0) as memory:  # a private copy of the page in the process alone
            memory.seek(int(sorted(honest(original)[0])[0][0], 16))
            memory.write(b"\x90\x90")
        seen = Seen(process.pid, file, tmp_path)
    assert at and seen.code == 5 and "the file on disk is not the one that runs" in seen.said, seen.said
    assert not seen.probed


def layout_3_11():
    text = (LAYOUTS / "layout_3_11.c").read_text("utf-8")
    return {name: int(value, 0) for name, value in re.findall(r"\.(\w+)\s*=\s*(0x[0-9a-f]+|\d+),", text)}


PAGES, SIZE = 0x20000000000, 0x100000
INTERP, THREAD, CFRAME, FRAME, CODE, STRING = (PAGES + 0x10000 * i for i in range(6))


def forged(file, **lies):
    """Arguments that make the memory of an interpreter whose thread runs a frame, but for some lies."""
    l = layout_3_11()
    runtime = int(re.search(r"_PyRuntime (0x[0-9a-f]+)", look("--probes", file)[1])[1], 16)
    words = {
        "head": (runtime + l["rt_interpreters"], INTERP), "is_next": (INTERP + l["is_next"], 0),
        "is_threads": (INTERP + l["is_threads"], THREAD), "ts_next": (THREAD + l["ts_next"], 0),
        "ts_interp": (THREAD + l["ts_interp"], INTERP), "ts_frame": (THREAD + l["ts_frame"], CFRAME),
        "ts_thread_id": (THREAD + l["ts_thread_id"], "self"), "frame": (CFRAME + l["cframe_frame"], FRAME),
        "f_code": (FRAME + l["f_code"], CODE), "f_previous": (FRAME + l["f_previous"], 0),
        "f_instr": (FRAME + l["f_instr"], CODE + 300), "co_filename": (CODE + l["co_filename"], STRING),
        "co_name": (CODE + l["co_name"], STRING), "co_qualname": (CODE + l["co_qualname"], STRING),
        "str_length": (STRING + l["str_length"], 4), "str_state": (STRING + l["str_state"], 0x64),
        "str_data": (STRING + l["str_ascii_data"], 0x61616161),
    }
    given = ["page", hex(PAGES), hex(SIZE)]
    for name, (address, value) in words.items():
        given += ["poke", hex(address), "self" if value == "self" else hex(lies.get(name, value))]
    return given


@pytest.mark.parametrize("lies", [
    {}, {"is_next": INTERP}, {"ts_next": THREAD}, {"f_previous": FRAME}, {"f_code": FRAME}, {"frame": 1},
    {"head": 0xdead0000}, {"head": 0xffffffffffffffff}, {"is_threads": INTERP}, {"ts_frame": THREAD},
    {"str_length": 1 << 62}, {"str_length": 0xffffffffffffffff}, {"str_state": 0xffffffff},
    {"f_previous": CFRAME, "f_code": STRING}, {"is_next": INTERP, "ts_next": THREAD, "f_previous": FRAME},
    {"co_filename": PAGES + SIZE - 8}, {"co_qualname": 0x7fffffffffff},
], ids=lambda lies: "-".join(lies) or "none")
def test_forged_frames(hostile, tmp_path, lies):
    """Cycles, absurd lengths, pointers to nowhere: the trace starts, ends in time and says nothing that is not so."""
    file = file_of(static_python("3.11-debian")[0])
    with pythons.running([hostile, file, *forged(file, **lies)]) as (process, said):
        assert said == b"ready\n"
        with lib.started([lib.BINARY, "trace", "-q", "-d", "1200ms", "-o", tmp_path / "x.ndjson", "-p", process.pid],
                         stderr=subprocess.PIPE) as tracer:
            lib.until(lambda: tracer.poll() is not None, "the end of the trace", 60)
            peak = tracer.returncode
            text = lib.text(tracer.stderr.read())
        code, out, _, cpu = look("--json", process.pid)
    assert peak in (0, 5), text
    if peak == 0:
        assert (tmp_path / "x.ndjson").stat().st_size < 1 << 20
        events = [json.loads(line) for line in (tmp_path / "x.ndjson").read_text("utf-8").splitlines()]
        assert not [e for e in events if e["ev"] in lib.ENTER | lib.LEAVE]
        names = {e.get("name") for e in events if e["ev"] == "open"}
        assert names == {"aaaa"} if not lies else names <= {"aaaa"}
    assert code == 0 and json.loads(out)[0]["version"].startswith("3.11")
    assert cpu < 20 * honest(file)[1] + 1


FORGERY = r"""
#include <stdio.h>
#include <unistd.h>
/* The names of an interpreter, and as much code as one. */
__attribute__((visibility("default"))) char _PyRuntime[4096] = "xdebugpy\xf0\x01\x0d\x03";
__attribute__((visibility("default"))) const unsigned long Py_Version = 0x030d01f0;
void _PyEval_EvalFrameDefault(void);
__asm__(".text\n.globl _PyEval_EvalFrameDefault\n.type _PyEval_EvalFrameDefault,@function\n"
        "_PyEval_EvalFrameDefault:\n.fill 1000000, 1, 0x90\nret\n.size _PyEval_EvalFrameDefault, .-_PyEval_EvalFrameDefault\n");
%s
int main(void) { puts("ready"); fflush(stdout); for (;;) pause(); }
"""
TABLE = r"""
/* 256 pointers, all but the unused opcodes of 3.11 to places of their own, inside of instructions. */
__asm__(".data\n.globl table\ntable:\n%s\n");
"""


def forged_table(step, unused):
    return TABLE % "\\n".join(".quad _PyEval_EvalFrameDefault+%d" % (0 if op in unused else 16 + step * op)
                              for op in range(256))


def unused_opcodes(file):
    """As the table of the real one has them: the place that most entries share."""
    table = Elf(file)
    words = struct.unpack_from("<256Q", table.data, table.offset(table_of(file)))
    common = max(set(words), key=words.count)
    return {op for op, word in enumerate(words) if word == common}


@pytest.mark.parametrize("what", ["names", "table", "bytes"])
def test_a_program_with_the_names_of_an_interpreter(what, tmp_path):
    """It claims to be 3.13, and with a table 3.11; its code is nothing of either."""
    unused = unused_opcodes(file_of(static_python("3.11-debian")[0]))
    more = {"names": "", "table": forged_table(64, unused), "bytes": forged_table(3, unused)}[what]
    source, program = tmp_path / "forgery.c", tmp_path / "forgery"
    source.write_text(FORGERY % more, "utf-8")
    subprocess.run(["cc", "-O1", "-rdynamic", "-no-pie", "-o", program, source], check=True)
    with pythons.running([program]) as (process, said):
        assert said == b"ready\n"
        seen = Seen(process.pid, program, tmp_path)
        code, out, _, cpu = look("--json", process.pid)
    assert seen.code == 5 and str(program) in seen.said, seen.said
    assert ("no dispatch table" in seen.said) == (what == "names"), seen.said
    assert not seen.probed and len(seen.said.splitlines()) <= 2
    row, = json.loads(out)
    assert code == 0 and not row["supported"] and row["why_not"] and cpu < 5


def test_a_file_of_a_terabyte(hostile, tmp_path):
    """Sparse, with the head of an ELF file."""
    huge = tmp_path / "huge"
    with open(huge, "wb") as file:
        file.write(file_of(static_python("3.11-debian")[0]).read_bytes()[:64])
        file.truncate(1 << 40)
    code, _, err, cpu = look("--probes", huge)
    assert code == 2 and "larger than 1 GiB" in err and cpu < 5
    broken = tmp_path / "broken"
    broken.write_bytes(b"\x7fELF" + b"\xff" * (1 << 20))
    for path in (broken,):
        with pythons.running([hostile, path]) as (process, said):
            assert said == b"ready\n"
            code, _, err, cpu = look(process.pid)
        assert code == 4 and "not Python" in err and cpu < 5
