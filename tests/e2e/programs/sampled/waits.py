# SPDX-License-Identifier: Apache-2.0
"""Threads of which each does one thing for two seconds: hash without the lock, sleep, wait for a lock, read a pipe."""
import os
import threading
import time
import zlib

DATA = b"x" * (16 << 20)
END = time.time() + 2


def hashing():
    while time.time() < END:
        zlib.crc32(DATA)


def sleeping():
    while time.time() < END:
        time.sleep(0.05)


def locked():
    LOCK.acquire()


def reading():
    os.read(PIPE[0], 1)


LOCK = threading.Lock()
LOCK.acquire()
PIPE = os.pipe()
THREADS = [threading.Thread(target=f) for f in (hashing, sleeping, locked, reading)]
for t in THREADS:
    t.start()
time.sleep(2)
LOCK.release()
os.write(PIPE[1], b"x")
for t in THREADS:
    t.join()
