# SPDX-License-Identifier: Apache-2.0
"""Forks workers whenever it is told to, and says their pids. Some run what it had long before; some something that they
have made themselves, where a function of it lay that they freed, or where it has made one since."""
import os
import sys
import time

TEXT = """
def %s():
    while time.process_time() < 0.05:
        pass
"""


def made(name):
    space = {"time": time}
    exec(compile(TEXT % name, "/made/%s.py" % name, "exec"), space)
    return space.pop(name)


def worker(function):
    function()
    os._exit(0)


inherited = made("inherited")
freed = made("freed")
print(os.getpid(), flush=True)
while sys.stdin.readline():
    pids = {"inherited": [], "freed": [], "since": []}
    since = None
    for how in pids:
        since = None
        pid = os.fork()
        if not pid:
            if how == "freed":
                freed = None
            worker(inherited if how == "inherited" else made("made_anew"))
        since = made("since")
        pids[how].append(pid)
    for pid in sum(pids.values(), []):
        os.waitpid(pid, 0)
    print(repr(pids), flush=True)
