# SPDX-License-Identifier: Apache-2.0
"""Computes in one thread and sleeps in another, for a long time; says when it begins."""
import threading
import time


def busy():
    while True:
        pass


def sleeps():
    time.sleep(60)


t = threading.Thread(target=sleeps)
t.daemon = True
print("ready", t.start(), flush=True)
busy()
