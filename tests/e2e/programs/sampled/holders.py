# SPDX-License-Identifier: Apache-2.0
"""One thread computes with the interpreter's lock, another one without it."""
import hashlib
import threading
import time

END = time.time() + 1.5
DATA = b"x" * (1 << 22)


def holding():
    while time.time() < END:
        for i in range(20000):
            pass


def hashing():
    while time.time() < END:
        hashlib.sha256(DATA)


T = [threading.Thread(target=f) for f in (holding, hashing)]
for t in T:
    t.start()
for t in T:
    t.join()
