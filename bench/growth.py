# SPDX-License-Identifier: Apache-2.0
"""How cost and memory grow with processes, threads and depth."""
import contextlib
import os
import re
import subprocess
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
# (processes, threads of each, frames of each thread)
ATTACH_S = 120
SHAPES = [(1, 1, 10), (1, 2, 10), (1, 200, 10), (1, 5000, 10), (1, 1, 1000), (1, 1, 10000), (20, 1, 10), (200, 1, 10)]


class Targets:
    """Processes of growth_target.py, all doing the same step at the same time."""

    def __init__(self, argv, shape, calls):
        count, threads, depth = shape
        self.processes = []
        for _ in range(count):
            command = argv + [os.path.join(HERE, "growth_target.py"), threads, depth, calls // count]
            self.processes.append(subprocess.Popen([str(c) for c in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                                   universal_newlines=True))
        for process in self.processes:
            assert process.stdout.readline() == "ready\n"
        self.pids = [process.pid for process in self.processes]

    def step(self):
        """The CPU seconds of all."""
        for process in self.processes:
            process.stdin.write("\n")
            process.stdin.flush()
        return sum(float(process.stdout.readline()) for process in self.processes)

    def finish(self):
        for process in self.processes:
            process.stdin.close()
        for process in self.processes:
            assert process.wait(300) == 0

    def end(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
            process.stdout.close()
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()


def memory_of(pid):
    """Bytes that a process has for itself."""
    with open("/proc/%d/status" % pid) as f:
        return int(re.search(r"RssAnon:\s+(\d+)", f.read()).group(1)) * 1024


def cpu_of(pid):
    with open("/proc/%d/stat" % pid) as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def settled(pid):
    """Its memory once it has read what there was: when that and its CPU time stay as they are for a while."""
    before, since = None, time.monotonic()
    end = since + 20
    while time.monotonic() < min(end, since + 0.3):
        now = memory_of(pid), cpu_of(pid)
        if before is None or now[0] != before[0] or now[1] - before[1] > 0.02:
            before, since = now, time.monotonic()
        time.sleep(0.05)
    return memory_of(pid)


def said(log):
    """What a pyebpf has said so far."""
    log.seek(0)
    return log.read()


def wait_attached(tracer, log):
    """Reads what is new only: with -v that is thousands of lines, and whoever reads them all each time takes a CPU. Not by seeking,
    which would move the place that the tracer writes at."""
    end, at, kept = time.monotonic() + ATTACH_S, 0, b""
    while b"capabilities kept" not in kept:
        if tracer.poll() is not None or time.monotonic() > end:
            raise RuntimeError("pyebpf did not attach within %d s" % ATTACH_S)
        time.sleep(0.01)
        more = os.pread(log.fileno(), 1 << 20, at)
        at += len(more)
        kept = kept[-100:] + more


def measure(pyebpf, argv, shape, calls, capture):
    """One shape, traced: its memory and its cost."""
    targets = Targets(argv, shape, calls)
    tracer, log = None, tempfile.TemporaryFile("w+", errors="replace")
    try:
        start = time.monotonic()
        pids = ",".join(map(str, targets.pids))
        tracer = subprocess.Popen([pyebpf, "trace", "-v", "--force", "-o", capture, "-p", pids], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL, stderr=log)
        wait_attached(tracer, log)
        attached = time.monotonic() - start
        time.sleep(1.5)  # threads that wait are shown after a second
        targets.step()
        before, cpu = settled(tracer.pid), cpu_of(tracer.pid)
        targets.step()
        alive = settled(tracer.pid)
        began_cpu = cpu_of(tracer.pid)
        seconds = targets.step()
        settled(tracer.pid)
        after_cpu = cpu_of(tracer.pid)
        targets.finish()
        tracer.wait(300)
        words = said(log)
    finally:
        targets.end()
        if tracer and tracer.poll() is None:
            tracer.kill()
            tracer.wait()
        log.close()
    counters = {name: int(n) for name, n in re.findall(r"counter (\w+): (\d+)", words)}
    written = int(re.search(r"^events\s+(\d+)", words, re.M).group(1))
    lost = int(re.search(r"^lost\s+(\d+)", words, re.M).group(1))
    return {"processes": shape[0], "threads": shape[1], "depth": shape[2], "attach_s": attached, "events": written, "lost": lost,
            "memory_bytes": alive, "grown_bytes": alive - before, "cpu_s": seconds, "pyebpf_cpu_s": after_cpu - began_cpu,
            "start_cpu_s": began_cpu - cpu, "capture_bytes": os.path.getsize(capture), "counters": counters}


def untraced(argv, shape, calls):
    targets = Targets(argv, shape, calls)
    try:
        targets.step()
        targets.step()
        seconds = targets.step()
        targets.finish()
    finally:
        targets.end()
    return seconds


def both(pyebpf, argv, shape, calls, capture):
    """measure(), with what a call costs the target beyond its own time."""
    bare = untraced(argv, shape, calls)
    result = measure(pyebpf, argv, shape, calls, capture)
    result["call_ns"] = (result["cpu_s"] - bare) / calls * 1e9
    return result
