"""usage: confined.py "main thread"|thread|later: that one has a filter of system calls, which kills for gettid(), "later" a thread that calls
functions, from the moment on when a line comes in; then it goes on for half a second: "fine"."""
import ctypes
import struct
import sys
import threading
import time

LIBC = ctypes.CDLL(None)
LOAD, EQUAL, RETURN, KILL, ALLOW, GETTID = 0x20, 0x15, 6, 0x80000000, 0x7FFF0000, 186
RULES = [(LOAD, 0, 0, 0), (EQUAL, 0, 1, GETTID), (RETURN, 0, 0, KILL), (RETURN, 0, 0, ALLOW)]
confine, done = threading.Event(), False


def confine_now():
    rules = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *rule) for rule in RULES))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(RULES), ctypes.addressof(rules)))
    assert LIBC.prctl(38, 1, 0, 0, 0) == 0 and LIBC.prctl(22, 2, program, 0, 0) == 0


def call(n):
    return n + 1


def work():
    while not done:
        if confine.is_set():
            confine.clear()
            confine_now()
            if sys.argv[1] == "thread":
                time.sleep(100)
        for i in range(1000):
            call(i)


if sys.argv[1] == "main thread":
    confine_now()
else:
    thread = threading.Thread(target=work)
    if sys.argv[1] == "thread":
        confine.set()
    thread.daemon = True
    thread.start()
    time.sleep(0.2)
print("up", flush=True)
if sys.argv[1] != "later":
    time.sleep(100)
sys.stdin.readline()
confine.set()
time.sleep(0.5)
done = True
thread.join()
print("fine", flush=True)
