# SPDX-License-Identifier: Apache-2.0
"""What programs do with descriptors and with their threads' CPUs that the inline engine must not take for something else."""
import os
import pathlib
import select

import pytest

import lib
from test_inline import INLINE, attach_for, memfd_links

SOME = lib.pick("3.8", "3.12", "3.13t")

OWN_TABLES = r"""
import ctypes, os, sys, threading
libc = ctypes.CDLL(None)
folder, cnt = sys.argv[1], int(sys.argv[2])
begin, go = threading.Barrier(cnt + 1), threading.Event()
def add(n): return n + 1
def work():
    assert libc.unshare(0x400) == 0  # CLONE_FILES
    begin.wait()
    go.wait()
    while True:
        n = 0
        for _ in range(1000): n = add(n)
        assert n == 1000
for _ in range(cnt): threading.Thread(target=work, daemon=True).start()
begin.wait()
files = [open(os.path.join(folder, "data%d" % i), "wb+", 0) for i in range(8)]
for f in files: f.write(b"precious" * 100)
go.set()
print("up", flush=True)
sys.stdin.readline()
print(all(os.pread(f.fileno(), 1 << 20, 0) == b"precious" * 100 for f in files), flush=True)
os._exit(0)
"""

CLOSES = r"""
import os, sys, threading, time
folder = sys.argv[1]
def work():
    while True: time.sleep(0.0002)
for _ in range(3): threading.Thread(target=work, daemon=True).start()
names = [os.path.join(folder, "data%d" % i) for i in range(8)]
for name in names: open(name, "wb").write(b"precious" * 100)
def has_memfd():
    for fd in range(3, 9):
        try:
            if "memfd:" in os.readlink("/proc/self/fd/%d" % fd): return True
        except OSError:
            pass
print("up", flush=True)
while not has_memfd(): pass
os.closerange(3, 64)
fds = [os.open(name, os.O_RDWR) for name in names]
print("closed", flush=True)
sys.stdin.readline()
print(all(os.pread(fd, 1 << 20, 0) == b"precious" * 100 for fd in fds), flush=True)
os._exit(0)
"""

SEQUENCES = r"""
import ctypes, os, sys
library = ctypes.PyDLL(sys.argv[1])
library.run.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p]
library.run.restype = ctypes.c_long
again, left = ctypes.c_long(), 0
def run(): return library.run(200, 100000, ctypes.addressof(again))
print("up", flush=True)
while not os.path.exists(sys.argv[2]):
    left += run()
print(left, again.value, flush=True)
"""


@pytest.mark.parametrize("name, threads", [(n, 2) for n in SOME] + [(n, 20) for n in lib.pick("3.8", "3.12")])
def test_threads_with_descriptors_of_their_own(name, threads, tmp_path):
    """unshare(CLONE_FILES): the number that one of them got is another file's in another one's table."""
    with lib.started(lib.command(name) + ["-c", OWN_TABLES, tmp_path, threads], stdin=-1) as target:
        assert target.stdout.readline() == b"up\n"
        for _ in range(3):
            done = attach_for(target.pid, tmp_path / "t.pyebpf", "-d", "50ms")
            assert done.returncode == 0, lib.text(done.stderr)
            links = [os.readlink(fd) for fd in pathlib.Path("/proc/%d/task" % target.pid).glob("*/fd/*")]
            assert links and not [link for link in links if "memfd:" in link]
        target.stdin.write(b"\n")
        target.stdin.flush()
        assert target.stdout.readline() == b"True\n" and target.wait(30) == 0


@pytest.mark.parametrize("name", SOME)
def test_descriptors_that_are_closed_meanwhile(name, tmp_path):
    """A program becomes a daemon in the middle of the attach: it closes what it does not know, and opens its own files."""
    seen = 0
    for _ in range(10):
        if seen == (5 if lib.LONG else 2):
            break
        with lib.started(lib.command(name) + ["-c", CLOSES, tmp_path], stdin=-1) as target:
            assert target.stdout.readline() == b"up\n"
            done = attach_for(target.pid, tmp_path / "t.pyebpf", "-d", "50ms")
            if done.returncode == 0 and not select.select([target.stdout], [], [], 5)[0]:
                continue  # it got no CPU time to see them in
            assert target.stdout.readline() == b"closed\n"
            refused = done.returncode == 4 and "closed what it was just given" in lib.text(done.stderr)
            assert done.returncode == 0 or refused, lib.text(done.stderr)
            assert not memfd_links(target.pid) and "memfd:" not in pathlib.Path("/proc/%d/maps" % target.pid).read_text()
            again = attach_for(target.pid, tmp_path / "t.pyebpf", "-d", "50ms")
            assert again.returncode == 0, lib.text(again.stderr)
            target.stdin.write(b"\n")
            target.stdin.flush()
            assert target.stdout.readline() == b"True\n" and target.wait(30) == 0
            seen += 1
    assert seen, "none was seen in time"


@pytest.mark.parametrize("name", [n for n in lib.pick("3.8", "3.12") if n.startswith("pyenv")])
def test_restartable_sequences(name, tmp_path):
    """A thread that makes calls for us in the middle of one begins it anew."""
    library = tmp_path / "sequences.so"
    assert lib.sh(["cc", "-O2", "-shared", "-fPIC", "-o", library, lib.PROGRAMS / "sequences.c"]).returncode == 0
    with lib.started(lib.command(name) + ["-c", SEQUENCES, library, tmp_path / "end"]) as target:
        assert target.stdout.readline() == b"up\n"
        for _ in range(40 if lib.LONG else 15):
            assert lib.trace([*INLINE, "--force", "-d", "5ms", "-p", target.pid], tmp_path / "t.pyebpf").returncode == 0
        (tmp_path / "end").touch()
        left, again = map(int, target.stdout.readline().split())
        assert left == 0 and again > 0 and target.wait(30) == 0
