# SPDX-License-Identifier: Apache-2.0
"""A thread that C has started calls Python, twice. Says the id of the thread of each call."""
import ctypes
import threading
import time

LIBC = ctypes.CDLL(None)
SEEN = []


def inside():
    until = time.time() + 0.4
    while time.time() < until:
        pass


@ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
def callback(_):
    SEEN.append(LIBC.syscall(186))  # gettid
    inside()
    return None


def main_waits(thread):
    LIBC.pthread_join(thread, None)


for _ in range(2):
    thread = ctypes.c_ulong()
    assert not LIBC.pthread_create(ctypes.byref(thread), None, callback, None)
    main_waits(thread)
assert threading.active_count() >= 1
print(*SEEN)
