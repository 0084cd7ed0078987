# SPDX-License-Identifier: Apache-2.0
"""One thread computes with the interpreter's lock, another one without it."""
import threading
import time
import zlib

END = time.time() + 1.5
DATA = b"x" * (1 << 24)


def holding():
    while time.time() < END:
        for i in range(20000):
            pass


def hashing():
    while time.time() < END:
        zlib.crc32(DATA)


T = [threading.Thread(target=f) for f in (holding, hashing)]
for t in T:
    t.start()
for t in T:
    t.join()
