# SPDX-License-Identifier: Apache-2.0
"""Nothing can be read of the memory in which the frames of a thread lie (in 3.13 a thread has memory of its own for them), while it
waits in C. Says "hidden", and goes on after a line."""
import ctypes
import os
import sys
import threading
import time

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
TSTATE = ctypes.pythonapi.PyThreadState_Get
TSTATE.restype = ctypes.c_void_p
CURRENT_FRAME, PAGE, READ = 72, 4096, "0"
PIPE = os.pipe()
seen = []


def waits():
    seen.append((threading.get_native_id(), ctypes.c_uint64.from_address(TSTATE() + CURRENT_FRAME).value))
    os.read(PIPE[0], 1)


def call_of(tid):
    with open("/proc/self/task/%d/syscall" % tid, encoding="ascii") as f:
        return f.read().split()[0]


thread = threading.Thread(target=waits)
thread.start()
while not seen or call_of(seen[0][0]) != READ:
    time.sleep(0.01)
page = seen[0][1] & -PAGE
assert not LIBC.mprotect(page, PAGE, 0)
print("hidden", seen[0][0], flush=True)
sys.stdin.readline()
assert not LIBC.mprotect(page, PAGE, 3)
os.write(PIPE[1], b"x")
thread.join()
print("done")
