# SPDX-License-Identifier: Apache-2.0
"""Two threads that give each other a byte through pipes for two seconds, on one CPU. Says, for each: its id, how often it gave the
CPU away, ns that it did not have it."""
import json
import os
import resource
import threading
import time

os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
THERE, BACK = os.pipe(), os.pipe()
END = time.time() + 2
SAID = []


def player(take, give):
    begin, cpu = time.monotonic_ns(), time.thread_time_ns()
    while time.time() < END:
        os.write(give, b"x")
        os.read(take, 1)
    wall, cpu = time.monotonic_ns() - begin, time.thread_time_ns() - cpu
    SAID.append((threading.get_native_id(), resource.getrusage(1).ru_nvcsw, wall - cpu))
    os.write(give, b"x")


T = [threading.Thread(target=player, args=a) for a in ((THERE[0], BACK[1]), (BACK[0], THERE[1]))]
for t in T:
    t.start()
for t in T:
    t.join()
print(json.dumps(SAID))
