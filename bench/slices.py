#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a tool costs a program whose machine is now faster, now slower: one run of it is cut into units of some ms, the tool
comes and goes, and a while with it is compared with those before and after. The lower quartile of the units leaves out what
others took of the CPU. slices.py NAME FILE: the program; it prints its pid and the events of a unit (calls and returns), and
writes each unit's begin and end in ns. A line on its stdin names the hook that it uses from then on; an empty one: none."""
import functools
import os
import struct
import subprocess
import sys
import time

import sampled
import workloads

UNIT = struct.Struct("=qq")
UNIT_S = 0.01
WINDOW_S = 1.0
SETTLE_S = 0.15  # a tool that has begun looks around first
LEAST_UNITS = 8


def quartile(values):
    return sorted(values)[len(values) // 4]


def inside(units, window):
    """How long the units took that lie wholly in a window."""
    return [end - begin for begin, end in units if begin >= window[0] and end <= window[1]]


def compare(units, windows):
    """(a unit without the tool in ns, with it) of the window with it, windows[1], and its neighbours; None: too few units."""
    took = [inside(units, w) for w in windows]
    if min(map(len, took)) < LEAST_UNITS:
        return None
    before, during, after = map(quartile, took)
    return (before + after) / 2, during


def pause(seconds=WINDOW_S):
    begin = time.monotonic_ns()
    time.sleep(seconds)
    return begin, time.monotonic_ns()


class Target:
    """The program. What it says: its pid, and the events of a unit."""

    def __init__(self, command, **popen):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **popen)
        self.pid, self.events = map(int, self.process.stdout.readline().split())

    def hook(self, name):
        """It is used from the next unit on, until what is returned is called."""
        def say(line):
            self.process.stdin.write(line + b"\n")
            self.process.stdin.flush()
        say(name.encode())
        return lambda: say(b"")

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


def visit(target, tools, repeats, seconds):
    """[(name, windows before, with and after the tool)]. @tools: name to a function of a Target that lets the tool begin and
    returns one that ends it. @seconds: name to the length of the window with it, where that is not WINDOW_S."""
    visits, before = [], pause()
    for _ in range(repeats):
        for name, start in tools.items():
            stop = start(target)
            time.sleep(SETTLE_S)
            during = pause(seconds.get(name, WINDOW_S))
            stop()
            after = pause()
            visits.append((name, (before, during, after)))
            before = after
    return visits


def measure(python, workload, tools, repeats, work, seconds=None, **popen):
    """{name: [(a unit without the tool in ns, with it)]}, the events of a unit."""
    path = os.path.join(work, "units")
    target = Target(python + [os.path.abspath(__file__), workload, path], **popen)
    try:
        visits = visit(target, tools, repeats, seconds or {})
    finally:
        target.end()
    with open(path, "rb") as f:
        data = f.read()
    units = list(UNIT.iter_unpack(data[:len(data) // UNIT.size * UNIT.size]))
    found = {name: [] for name in tools}
    for name, windows in visits:
        pair = compare(units, windows)
        if pair:
            found[name].append(pair)
    return found, target.events


# --- the program ---

def unit_of(name):
    """A function that works for some UNIT_S."""
    if name in workloads.WORKLOADS:
        workload = workloads.WORKLOADS[name]()
        work, size = workload.run, workload.size
    else:
        work, size = getattr(sampled, "work_" + name), 100
    begin = time.perf_counter()
    work(size)
    part = UNIT_S / (time.perf_counter() - begin)
    if name != "fib":  # whose size is no number of rounds
        size = max(1, int(size * part))
    return lambda: work(size)


def no_hook():
    return lambda: None


def hook_cprofile():
    import cProfile
    profile = cProfile.Profile()
    profile.enable()
    return profile.disable


@functools.lru_cache(None)
def viztracer():
    import viztracer as package
    return package.VizTracer(tracer_entries=4000000, verbose=0)


def hook_viztracer():
    viztracer().start()
    return lambda: viztracer().stop() or viztracer().clear()


HOOKS = {"": no_hook, "cProfile": hook_cprofile, "viztracer": hook_viztracer, "setprofile": workloads.hook_setprofile,
         "monitoring": workloads.hook_monitoring}


def obey(stop):
    """What was said, if anything; the function that ends the hook that is used now."""
    try:
        said = os.read(0, 64).decode()
    except BlockingIOError:
        return stop
    stop()
    return HOOKS[said.splitlines()[-1] if said else ""]()


def main():
    unit = unit_of(sys.argv[1])
    counter = workloads.Count()
    sys.setprofile(counter)
    unit()
    sys.setprofile(None)
    sys.stdout.write("%d %d\n" % (os.getpid(), counter.events))
    sys.stdout.flush()
    os.set_blocking(0, False)
    stop = no_hook()
    with open(sys.argv[2], "wb", buffering=0) as out:
        while True:
            begin = time.monotonic_ns()
            unit()
            out.write(UNIT.pack(begin, time.monotonic_ns()))
            stop = obey(stop)


if __name__ == "__main__":
    main()
