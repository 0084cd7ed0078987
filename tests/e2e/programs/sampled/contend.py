# SPDX-License-Identifier: Apache-2.0
"""Two threads that want the interpreter's lock all the time."""
import threading
import time

END = time.time() + 1.5


def fight():
    x = 0
    while time.time() < END:
        for i in range(1000):
            x += i


T = [threading.Thread(target=fight) for _ in range(2)]
for t in T:
    t.start()
for t in T:
    t.join()
