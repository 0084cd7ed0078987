# SPDX-License-Identifier: Apache-2.0
"""Samplers side by side: what they cost a program, what they need themselves, what they got of what was asked, and how
much of it can not have been. A program waits, a tool attaches by pid, the program works; each round has each tool once, in
another order, between two runs without any."""
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import slices
from common import CACHE, CPU_TARGET, CPU_TOOL, HERE, Failed, median, middle_half, pin, say
from sampled import CHAINS

# The newest that run with glibc 2.36.
PEERS = ["py-spy==0.4.3", "austin-dist==3.7.0"]
PROGRAM = os.path.join(HERE, "sampled.py")
TICK = os.sysconf("SC_CLK_TCK")
UNREAD = ("[unreadable", "INVALID")  # of pyebpf, austin; the others leave such a sample out
ATTACH_S = 1.5  # the others have attached by then


def interruptible(cpu):
    """On a CPU, and ended by SIGINT also where this runs in the background of a shell."""
    pinned = pin(cpu)

    def begin():
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        pinned()
    return begin


def peers():
    """Folder of the peers' programs, from PyPI into the cache; None: they could not be had."""
    folder = os.path.join(CACHE, "bench", "-".join(PEERS).replace("==", "-"))
    if os.path.isdir(folder):
        return os.path.join(folder, "bin")
    work = "%s.%d" % (folder, os.getpid())
    run = subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--target", work] + PEERS,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
    if run.returncode:
        say("without py-spy and austin: %s" % run.stdout.strip()[-200:])
        shutil.rmtree(work, ignore_errors=True)
        return None
    os.rename(work, folder)
    return os.path.join(folder, "bin")


# --- tools: command, and the stacks of what they wrote as ([names, root first], samples) ---

def frames_of(folded, names):
    """Stacks of `a;b;c N` lines; @names: a frame's text to its name."""
    for line in folded.splitlines():
        stack, _, count = line.rpartition(" ")
        if stack and count.isdigit() and not line.startswith("#"):
            yield [names(frame) for frame in stack.split(";")], int(count)


def clocks(pid):
    """How many sampling clocks a process has open."""
    try:
        return sum(os.readlink(fd.path).startswith("anon_inode:[perf_event") for fd in os.scandir("/proc/%d/fd" % pid))
    except OSError:
        return 0


def until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise Failed("a sampler that did not begin")
        time.sleep(0.02)


class Pyebpf:
    name = "pyebpf"

    def __init__(self, program, _python):
        self.program = program

    def command(self, pid, rate, out):
        return [self.program, "record", "-q", "--force", "--mode", "cpu", "-r", str(rate), "-p", str(pid), "-o", out + ".pyebpf"]

    def stacks(self, out):
        text = subprocess.run([self.program, "convert", "-q", out + ".pyebpf", "-f", "ndjson", "-o", "-"], check=True,
                              stdout=subprocess.PIPE).stdout.decode("utf-8")
        for line in text.splitlines():
            e = json.loads(line)
            if e["ev"] == "sample":
                yield [f["name"] for f in e["stack"]], 1


class Clock:
    """The tick alone, with nobody to look: what no sampler in the kernel can go below."""
    name = "(only the clock)"

    def command(self, _pid, rate, _out):
        return [sys.executable, os.path.join(HERE, "only_clock.py"), str(rate)]

    def stacks(self, _out):
        return ()


class PySpy:
    name = "py-spy"
    options = []

    def __init__(self, program, _python):
        self.program = program

    def command(self, pid, rate, out):
        return [self.program, "record", "-r", str(rate), "-p", str(pid), "-f", "raw", "-o", out, "-d", "600"] + self.options

    def stacks(self, out):
        with open(out, encoding="utf-8", errors="replace") as f:
            yield from frames_of(f.read(), lambda frame: frame.split(" (")[0])


class PySpyNonblocking(PySpy):
    name = "py-spy --nonblocking"
    options = ["--nonblocking"]


class Austin:
    name = "austin"

    def __init__(self, program, _python):
        self.program = program

    def command(self, pid, rate, out):
        return [self.program, "-s", "-i", str(1000000 // rate), "-p", str(pid), "-o", out]

    def stacks(self, out):
        """P1;T2;file:function:line;... microseconds: a line is a sample."""
        with open(out, encoding="utf-8", errors="replace") as f:
            for line in f:
                if line.startswith("P"):
                    stack = line.rpartition(" ")[0].split(";")[2:]
                    yield [frame.split(":")[1] if frame.count(":") >= 2 else frame for frame in stack], 1


class Tachyon:
    name = "profiling.sampling"
    options = []

    def __init__(self, _program, python):
        self.python = python

    def command(self, pid, rate, out):
        return self.python + ["-m", "profiling.sampling", "attach", "-r", str(rate), "--mode", "wall", "--no-gc", "--collapsed",
                              "-o", out, "-d", "600", *self.options, str(pid)]

    def stacks(self, out):
        with open(out, encoding="utf-8", errors="replace") as f:
            yield from frames_of(f.read(), lambda frame: frame.split(":")[-2] if frame.count(":") >= 2 else frame)


class TachyonBlocking(Tachyon):
    name = "profiling.sampling --blocking"
    options = ["--blocking"]


# --- one run ---

def cpu_s(pid):
    """CPU time of a process so far; of one that is gone 0."""
    try:
        with open("/proc/%d/stat" % pid) as f:
            fields = f.read().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICK


def judge(stacks, workload):
    """(samples in the work, wrong ones, unread ones). Wrong: no prefix of a legal chain, or without its root. Unread: the tool
    itself says in the stack that it could not read it, so nobody takes it for one."""
    got = wrong = unread = 0
    legal = {tuple(c[:n]) for c in CHAINS[workload] for n in range(len(c) + 1)}
    inner = {name for chain in CHAINS[workload] for name in chain}
    for names, cnt in stacks:
        # comprehensions are functions of their own to 3.11, and no matter of ours
        names = [n for n in names if n not in ("<listcomp>", "<genexpr>", "<native>", "<GC>", "~")]
        at = "work_" + workload
        if any(mark in n for n in names for mark in UNREAD):
            got += cnt
            unread += cnt
        elif at in names:
            got += cnt
            wrong += cnt * (tuple(names[names.index(at) + 1:]) not in legal or "<module>" not in names)
        elif any(n in inner for n in names):
            got += cnt
            wrong += cnt
    return got, wrong, unread


def begin_sampling(tool, pid, rate, cpu, work):
    """The tool's process, once it samples."""
    with open(os.path.join(work, "said"), "wb") as said:
        sampler = subprocess.Popen(tool.command(pid, rate, os.path.join(work, "out")), stdin=subprocess.DEVNULL, stdout=said,
                                   stderr=said, preexec_fn=interruptible(cpu))
    if isinstance(tool, (Pyebpf, Clock)):
        until(lambda: clocks(sampler.pid))
    return sampler


def run(python, workload, rounds, tool, rate, cpu, work):
    out = os.path.join(work, "out")
    target = subprocess.Popen(python + [PROGRAM, workload, str(rounds)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              universal_newlines=True, preexec_fn=pin(CPU_TARGET))
    sampler, result = None, {}
    try:
        pid = int(target.stdout.readline())
        if tool:
            sampler = begin_sampling(tool, pid, rate, cpu, work)
            time.sleep(ATTACH_S)
        before = cpu_s(sampler.pid) if sampler else 0
        target.stdin.write("go\n")
        target.stdin.flush()
        result = json.loads(target.stdout.readline())
        if sampler:
            result["own_cpu_s"] = cpu_s(sampler.pid) - before
            sampler.send_signal(signal.SIGINT)
            sampler.wait(60)
            got, wrong, unread = judge(tool.stacks(out), workload)
            result.update(got=got, wrong=wrong, unread=unread, asked=rate * result["elapsed_s"])
    except (OSError, ValueError, subprocess.SubprocessError) as e:
        with open(os.path.join(work, "said"), errors="replace") as said:
            result["failed"] = "%s %s" % (e, said.read()[-200:])
    finally:
        for process in (sampler, target):
            if process and process.poll() is None:
                process.kill()
                process.wait()
        target.stdin.close()
        target.stdout.close()
    return result


def calibrate(python, workload, work, seconds):
    """Rounds that take about so long."""
    once = run(python, workload, 200, None, 0, 0, work)
    if "failed" in once:
        raise Failed(once["failed"])
    return max(10, int(200 * seconds / once["elapsed_s"]))


def measure(python, tools, workload, rates, cpus, rounds, seconds, work):
    """[{tool, rate, cpu, slowdown, own CPU, got, asked, wrong, unread}], medians over the rounds."""
    size = calibrate(python, workload, work, seconds)
    cells = [(tool, rate, cpu) for rate in rates for cpu in cpus for tool in tools]
    kept = {}
    for n in range(rounds):
        order = cells[n % len(cells):] + cells[:n % len(cells)]
        base = run(python, workload, size, None, 0, 0, work)
        for tool, rate, cpu in order:
            r = run(python, workload, size, tool, rate, cpu, work)
            after = run(python, workload, size, None, 0, 0, work)
            if "failed" in r:
                say("%s at %d Hz: %s" % (tool.name, rate, r["failed"]))
            else:
                r["slowdown"] = 2 * r["elapsed_s"] / (base["elapsed_s"] + after["elapsed_s"])
                r["cpu_slowdown"] = 2 * r["cpu_s"] / (base["cpu_s"] + after["cpu_s"])
                kept.setdefault((tool.name, rate, cpu), []).append(r)
            kept.setdefault(("base", 0, 0), []).append({"slowdown": after["elapsed_s"] / base["elapsed_s"]})
            base = after
    rows = []
    for tool, rate, cpu in [(t.name, r, c) for t, r, c in cells]:
        runs = kept.get((tool, rate, cpu))
        if runs:
            got = sum(r["got"] for r in runs)
            rows.append({"tool": tool, "rate": rate, "cpu": "same" if cpu == CPU_TARGET else "other",
                         "slowdown": median([r["slowdown"] for r in runs]), "slowdowns": sorted(r["slowdown"] for r in runs),
                         "cpu_slowdown": median([r["cpu_slowdown"] for r in runs]),
                         "own_cpu": median([r["own_cpu_s"] / r["elapsed_s"] for r in runs]),
                         "asked_hz": rate, "got_of_asked": median([r["got"] / r["asked"] for r in runs]), "got": got,
                         "wrong_pct": 100.0 * sum(r["wrong"] for r in runs) / max(1, got),
                         "unread_pct": 100.0 * sum(r["unread"] for r in runs) / max(1, got)})
    noise = sorted(r["slowdown"] for r in kept[("base", 0, 0)])
    return {"workload": workload, "base_noise": [noise[0], median(noise), noise[-1]], "rows": rows}


def sliced(python, tools, workload, rates, repeats, work):
    """[{tool, rate, slowdown, least, most}] of slices of one run (slices.py), the tool on the other CPU; least and most are
    those of the middle half."""
    def starter(tool, rate):
        def start(target):
            sampler = begin_sampling(tool, target.pid, rate, CPU_TOOL, work)
            if not isinstance(tool, (Pyebpf, Clock)):
                time.sleep(ATTACH_S)
            return lambda: sampler.send_signal(signal.SIGINT) or sampler.wait(60)
        return start

    starters = {(tool.name, rate): starter(tool, rate) for rate in rates for tool in tools}
    found = slices.measure(python, workload, starters, repeats, work, preexec_fn=pin(CPU_TARGET))[0]
    return [dict(middle_half([during / base for base, during in pairs]), tool=name, rate=rate)
            for (name, rate), pairs in found.items() if pairs]


# --- pyebpf alone ---

def busy_ones(python, idle, busy):
    """Processes that sleep, and ones that compute."""
    code = {False: "import time\nprint(1, flush=True)\ntime.sleep(600)",
            True: "print(1, flush=True)\ndef spin():\n while True:\n  sum(range(1000))\nspin()"}
    made = [subprocess.Popen(python + ["-I", "-S", "-c", code[i < busy]], stdout=subprocess.PIPE) for i in range(idle + busy)]
    for p in made:
        p.stdout.readline()
    return made


def stop(made):
    for p in made:
        p.kill()
    for p in made:
        p.wait()
        if p.stdout:
            p.stdout.close()


def starts(pyebpf, python, work, repeats):
    """From the start of pyebpf to a flame graph of half a second, and to the first sample."""
    made = busy_ones(python, 0, 1)
    graph, attach = [], []
    try:
        for _ in range(repeats):
            svg, capture = os.path.join(work, "f.svg"), os.path.join(work, "f.pyebpf")
            begin = time.monotonic()
            subprocess.run([pyebpf, "record", "-q", "--force", "-p", str(made[0].pid), "-d", "500ms", "-o", svg], check=True,
                           stdin=subprocess.DEVNULL)
            graph.append(time.monotonic() - begin)
            begin = time.monotonic_ns()
            subprocess.run([pyebpf, "record", "-q", "--force", "-r", "999", "-p", str(made[0].pid), "-d", "200ms", "-o", capture],
                           check=True, stdin=subprocess.DEVNULL)
            first = first_sample(pyebpf, capture)
            attach.append((first - begin) / 1e9)
    finally:
        stop(made)
    return {"flame_graph_s": median(graph), "to_first_sample_s": median(attach)}


def samples_of(pyebpf, capture):
    text = subprocess.run([pyebpf, "convert", "-q", capture, "-f", "ndjson", "-o", "-"], check=True,
                          stdout=subprocess.PIPE).stdout.decode("utf-8")
    return [e for e in map(json.loads, text.splitlines()) if e["ev"] == "sample"]


def first_sample(pyebpf, capture):
    return min(e["ts_ns"] for e in samples_of(pyebpf, capture) if e["state"] == "on")


def attach_each(pyebpf, python, work, cnt):
    """What a process more takes: from the start to the first samples of many of them and of one, by -p."""
    made = busy_ones(python, cnt - 1, 1)
    capture = os.path.join(work, "many.pyebpf")
    took = {}
    try:
        for n in (1, cnt):
            pids = ",".join(str(p.pid) for p in reversed(made[:n]))  # the busy one is the last
            begin = time.monotonic_ns()
            subprocess.run([pyebpf, "record", "-q", "--force", "-r", "999", "-p", pids, "-d", "200ms", "-o", capture], check=True,
                           stdin=subprocess.DEVNULL)
            took[n] = (first_sample(pyebpf, capture) - begin) / 1e9
    finally:
        stop(made)
    return {"one_s": took[1], "all_s": took[cnt], "each_ms": 1e3 * (took[cnt] - took[1]) / (cnt - 1), "processes": cnt}


def children_cpu_s():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def dumps(tools, python, repeats):
    """{tool: (CPU time, elapsed)} in ms of one look at a process, medians; @tools: name to command before the pid. In turns."""
    made = busy_ones(python, 0, 1)
    took = {name: [] for name in tools}
    try:
        for _ in range(repeats):
            for name, command in tools.items():
                before, begin = children_cpu_s(), time.monotonic()
                subprocess.run(command + [str(made[0].pid)], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
                took[name].append((children_cpu_s() - before, time.monotonic() - begin))
    finally:
        stop(made)
    return {name: [1e3 * median([x[i] for x in all_of_them]) for i in (0, 1)] for name, all_of_them in took.items()}


def top_cpu_pct(pyebpf, python, seconds):
    """Of one CPU, for `top` at 99 Hz with a table each second, as the scheduler counts it."""
    made = busy_ones(python, 1, 1)
    top = subprocess.Popen([pyebpf, "top", "-p", ",".join(str(p.pid) for p in made)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        until(lambda: clocks(top.pid))
        time.sleep(2)
        before, begin = schedstat(top.pid), time.monotonic_ns()
        time.sleep(seconds)
        return 100 * (schedstat(top.pid) - before) / (time.monotonic_ns() - begin)
    finally:
        stop([top])
        stop(made)


def schedstat(pid):
    """CPU time in ns of a process of one thread."""
    with open("/proc/%d/schedstat" % pid) as f:
        return int(f.read().split()[0])


def rss_mb(pid):
    with open("/proc/%d/status" % pid) as f:
        return int(re.search(r"VmRSS:\s*(\d+)", f.read())[1]) / 1024


def own(*args):
    """CPU and memory of a recording of many processes, in a pid namespace: it sees no others."""
    run = subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", sys.executable, os.path.abspath(__file__)],
                         input=json.dumps(args), stdout=subprocess.PIPE, universal_newlines=True, check=True)
    return json.loads(run.stdout)


def own_inside(pyebpf, python, work, processes, busy, seconds):
    """The same, once it has found them."""
    made = busy_ones(python, processes - busy, busy)
    capture = os.path.join(work, "own.pyebpf")
    recorder = subprocess.Popen([pyebpf, "record", "-q", "--force", "-a", "-r", "99", "-o", capture], stdin=subprocess.DEVNULL,
                                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    try:
        until(lambda: clocks(recorder.pid))
        time.sleep(5)
        before, begin = cpu_s(recorder.pid), time.monotonic()
        time.sleep(seconds)
        used, took = cpu_s(recorder.pid) - before, time.monotonic() - begin
        memory = rss_mb(recorder.pid)
        recorder.send_signal(signal.SIGINT)
        recorder.wait(120)
        seen = {e["pid"] for e in samples_of(pyebpf, capture)} & {p.pid for p in made}
    finally:
        if recorder.poll() is None:
            recorder.kill()
            recorder.wait()
        stop(made)
    return {"processes": processes, "busy": busy, "busy_seen": len(seen), "cpu_pct": 100 * used / took, "rss_mb": memory}


if __name__ == "__main__":
    print(json.dumps(own_inside(*json.load(sys.stdin))))
