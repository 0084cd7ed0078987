# SPDX-License-Identifier: Apache-2.0
"""Threads that wait for ever, each for what its function is called, and two that want the interpreter's lock; says
the stack of each one that waits."""
import json
import os
import subprocess
import sys
import threading
import time


def sleep():
    time.sleep(1000)


def lock():
    LOCK.acquire()


def io():
    os.read(PIPE[0], 1)


def other():
    os.waitpid(CHILD.pid, 0)


def busy():
    while True:
        pass


def generator(f):
    yield 1
    (f)(
    )
    yield 2


def through_c(f):
    for _ in map(lambda g: list(g), [generator(f)]):
        pass


def stack_of(thread):
    f, stack = sys._current_frames()[thread.ident], []
    while f:
        code = f.f_code
        stack.insert(0, [getattr(code, "co_qualname", code.co_name), code.co_filename, f.f_lineno])
        f = f.f_back
    return stack


def settled(thread):
    """Its stack where it stays."""
    stack = stack_of(thread)
    while stack[-1][0] != thread.name:
        time.sleep(0.01)
        stack = stack_of(thread)
    return stack


LOCK = threading.Lock()
LOCK.acquire()
PIPE = os.pipe()
CHILD = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)  # ends with us
WAITERS = [threading.Thread(target=through_c, args=(f,), name=f.__name__) for f in (sleep, lock, io, other)]
for t in WAITERS:
    t.daemon = True
    t.start()
print(json.dumps({t.name: settled(t) for t in WAITERS}))
sys.stdout.flush()
t = threading.Thread(target=busy)
t.daemon = True
t.start()
busy()
