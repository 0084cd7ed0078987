"""usage: unwakeable.py FIFO FLAG: a thread sleeps where nothing wakes it, in vfork(), after each line of stdin and until FIFO is
written to; the first one calls a function all the time until FLAG exists, and says how long that took at the longest, in ms."""
import ctypes
import os
import sys
import threading
import time

LIBC = ctypes.CDLL(None)
FIFO, FLAG = sys.argv[1:3]
WORDS = ctypes.c_char_p * 2


def sleep():
    """The child waits for FIFO before it executes anything, and its parent for that."""
    actions = ctypes.create_string_buffer(256)
    LIBC.posix_spawn_file_actions_init(actions)
    LIBC.posix_spawn_file_actions_addopen(actions, 0, FIFO.encode(), os.O_RDONLY, 0)
    child = ctypes.c_int()
    assert LIBC.posix_spawn(ctypes.byref(child), b"/bin/true", actions, None, WORDS(b"true", None), WORDS(None, None)) == 0
    os.waitpid(child.value, 0)


def sleeper():
    for _ in sys.stdin:
        sleep()


def leaf():
    return 1


threading.Thread(target=sleeper, daemon=True).start()
print("up", flush=True)
longest = 0
while not os.path.exists(FLAG):
    begun = time.monotonic()
    for _ in range(100):
        leaf()
    longest = max(longest, time.monotonic() - begun)
    time.sleep(0.001)
print(longest * 1000, flush=True)
