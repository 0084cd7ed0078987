# SPDX-License-Identifier: Apache-2.0
"""One thread keeps the interpreter's lock as long as it may, another one wants it a thousand times a second."""
import threading
import time

END = time.time() + 1.5


def hog():
    while time.time() < END:
        for i in range(20000):
            pass


def short():
    return [i for i in range(10)]


def polite():
    while time.time() < END:
        time.sleep(0.001)
        short()


T = [threading.Thread(target=f) for f in (hog, polite)]
for t in T:
    t.start()
for t in T:
    t.join()
