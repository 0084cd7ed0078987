#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a sample costs in the kernel: the run time of the clock's program, as the kernel counts it (BPF_ENABLE_STATS), over
all its ticks, while a program with a stack of known depth has every CPU. stack_cost.py FRAMES SECONDS is that program."""
import ctypes
import glob
import os
import subprocess
import sys
import time

import common

RATE = 1997
PERF_EVENT = "7"  # BPF_PROG_TYPE_PERF_EVENT
SYS_BPF, BPF_ENABLE_STATS = 321, 32


def count_time():
    """The kernel counts while this descriptor is open."""
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.syscall(SYS_BPF, BPF_ENABLE_STATS, ctypes.create_string_buffer(4), 4)
    if fd < 0:
        raise OSError(ctypes.get_errno(), "BPF_ENABLE_STATS")
    return fd


def clock_time(pid):
    """(ns, ticks) of the clock's program that a process holds; None: it has none yet."""
    for path in glob.glob("/proc/%d/fdinfo/*" % pid):
        try:
            with open(path) as f:
                fields = dict(line.split(":", 1) for line in f if ":" in line)
        except OSError:
            continue
        if fields.get("prog_type", "").strip() == PERF_EVENT:
            return int(fields["run_time_ns"]), int(fields["run_cnt"])
    return None


def once(pyebpf, python, frames, work, seconds):
    capture = os.path.join(work, "cost.pyebpf")
    recorder = subprocess.Popen([pyebpf, "record", "-q", "--force", "-s", "--mode", "cpu", "-r", str(RATE), "-o", capture, "--",
                                 *python, os.path.abspath(__file__), str(frames), str(seconds + 1)], stdout=subprocess.PIPE)
    try:
        recorder.stdout.readline()  # it is down there
        time.sleep(0.3)
        begin = clock_time(recorder.pid)
        time.sleep(seconds)
        end = clock_time(recorder.pid)
    finally:
        recorder.communicate()
    return (end[0] - begin[0]) / (end[1] - begin[1])


def measure(pyebpf, pythons, depths, work, repeats=3, seconds=1.5):
    """{name: {frames: ns}}, medians"""
    fd = count_time()
    try:
        return {name: {n: sorted(once(pyebpf, python, n, work, seconds) for _ in range(repeats))[repeats // 2] for n in depths}
                for name, python in pythons.items()}
    finally:
        os.close(fd)


def down(n, until):
    if n:
        return down(n - 1, until)
    print(1, flush=True)
    x = 0
    while time.time() < until:
        for i in range(1000):
            x += i
    return x


def main():
    cpus = sorted(os.sched_getaffinity(0))
    children = []
    for cpu in cpus[1:]:
        pid = os.fork()
        if not pid:
            cpus[0], children = cpu, []
            break
        children.append(pid)
    common.pin(cpus[0])()
    down(int(sys.argv[1]) - 3, time.time() + float(sys.argv[2]))
    for pid in children:
        os.waitpid(pid, 0)


if __name__ == "__main__":
    main()
