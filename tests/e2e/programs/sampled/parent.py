# SPDX-License-Identifier: Apache-2.0
"""Three children that compute; says their pids."""
import os
import time


def child():
    end = time.time() + 0.7
    while time.time() < end:
        pass


pids = []
for _ in range(3):
    pid = os.fork()
    if not pid:
        child()
        os._exit(0)
    pids.append(pid)
for pid in pids:
    os.waitpid(pid, 0)
print(*pids)
