# SPDX-License-Identifier: Apache-2.0
"""Threads that sleep, wait for a lock, fight for the interpreter's lock, and compute without it, for two seconds each; says of
each thread its id, and when it began and ended by the monotonic clock."""
import hashlib
import json
import threading
import time

LOCK = threading.Lock()
DATA = b"x" * 200000
said = []


def sleeping():
    time.sleep(0.003)


def locking():
    with LOCK:
        time.sleep(0.002)


def fighting():
    for _ in range(2000):
        pass


def hashing():
    hashlib.sha256(DATA).digest()
    time.sleep(0.001)


def in_thread(what):
    begin = time.monotonic()
    while time.monotonic() < begin + 2:
        what()
    said.append([threading.get_native_id(), what.__name__, int(begin * 1e9), int(time.monotonic() * 1e9)])


threads = [threading.Thread(target=in_thread, args=(f,)) for f in (sleeping, locking, locking, fighting, fighting, hashing)]
for t in threads:
    t.start()
for t in threads:
    t.join()
print(json.dumps(said))
