#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who is chosen on a machine that has cgroups of version 1 only: `trace --cgroup` and `--container`, `record --cgroup`, and
`trace --thread`. Programs come and go inside and outside; those inside are whole, of those outside nothing is seen. Only in a machine of one's own (scripts/vmtest): it mounts a hierarchy.

usage: chosen.py --pyebpf BIN --python PY [--work DIR]
       chosen.py target calls|spin|threads: those programs
"""
import argparse
import collections
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time

TARGET = os.path.abspath(__file__)
ID = "0123456789abcdef" * 4
CALLS = 5


def own():
    pass


def calls():
    for _ in range(CALLS):
        own()


def spin():
    end = time.monotonic() + 0.5
    while time.monotonic() < end:
        own()


def threads():
    for name in ("pool-0", "other", "pool-1"):
        t = threading.Thread(target=calls, name=name)
        t.start()
        t.join()
    calls()


def target(name):
    globals()[name]()


def mount(at):
    """A hierarchy of version 1 without a controller, as a container engine's own is one with some."""
    os.mkdir(at)
    subprocess.run(["mount", "-t", "cgroup", "-o", "none,name=pyebpf", "cgroup", at], check=True)
    with open("/proc/mounts", encoding="utf-8") as f:
        assert not any(line.split()[2] == "cgroup2" for line in f), "not a machine with version 1 only"


class Group:
    def __init__(self, at):
        self.at = at
        os.makedirs(at)

    def enter(self):
        with open(self.at + "/cgroup.procs", "w", encoding="utf-8") as f:
            f.write("0")


def run(python, name, group=None):
    """One program to its end; its pid."""
    with subprocess.Popen([*python, "-S", TARGET, "target", name], preexec_fn=group and group.enter) as program:  # pylint: disable=subprocess-popen-preexec-fn
        assert program.wait() == 0
    return program.pid


def capabilities(pid):
    with open("/proc/%d/status" % pid, encoding="utf-8") as f:
        return next(line for line in f if line.startswith("CapEff:"))


def wait_begun(tracer):
    """It gives up privileges when its last probe is in place."""
    while tracer.poll() is None and capabilities(tracer.pid) == capabilities(os.getpid()):
        time.sleep(0.1)


def come_and_go(args, command, options, group, program):
    """Under pyebpf COMMAND OPTIONS: (pids inside, pids outside, its events or samples)"""
    capture = os.path.join(args.work, "s.pyebpf")
    with subprocess.Popen([*args.python, "-S", "-c", "input()"], stdin=subprocess.PIPE, preexec_fn=group.enter) as waits:  # pylint: disable=subprocess-popen-preexec-fn
        time.sleep(2)  # until it is what it executes
        with subprocess.Popen([args.pyebpf, command, "-q", "--force", "-o", capture, *options]) as tracer:
            wait_begun(tracer)
            pairs = [(run(args.python, program, group), run(args.python, program)) for _ in range(3)]
            tracer.send_signal(signal.SIGINT)
        waits.communicate(b"\n")
    assert tracer.returncode == 0, "%s: exit %d" % (command, tracer.returncode)
    inside, outside = zip(*pairs)
    return set(inside), set(outside), events(args, capture)


def events(args, capture):
    text = subprocess.run([args.pyebpf, "convert", "-q", capture, "-f", "ndjson", "-o", "-"], stdout=subprocess.PIPE, check=True).stdout
    return [json.loads(line) for line in text.decode("utf-8").splitlines()]


def judge_trace(args, group, *options):
    inside, outside, seen = come_and_go(args, "trace", options, group, "calls")
    own_calls = collections.Counter(e["pid"] for e in seen if e["ev"] == "call" and e["func"] == "own")
    if own_calls != {pid: CALLS for pid in inside} or outside & {e.get("pid") for e in seen}:
        return "trace %s: %s of %s inside, %s outside" % (options, own_calls, inside, outside)
    return None


def judge_record(args, group, *options):
    inside, outside, seen = come_and_go(args, "record", options, group, "spin")
    found = {e["pid"] for e in seen if e["ev"] == "sample" and any(f["name"] in ("spin", "own") for f in e["stack"])}
    if found != inside or outside & {e.get("pid") for e in seen}:
        return "record %s: %s of %s inside, %s outside" % (options, found, inside, outside)
    return None


def judge_threads(args):
    capture = os.path.join(args.work, "t.pyebpf")
    subprocess.run([args.pyebpf, "trace", "-q", "--force", "-o", capture, "--thread", "pool-*", "--", *args.python, TARGET, "target", "threads"],
                   check=True)
    own_calls = collections.Counter(e["tid"] for e in events(args, capture) if e["ev"] == "call" and e["func"] == "own")
    return None if list(own_calls.values()) == [CALLS, CALLS] else "--thread: %s" % own_calls


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--pyebpf", required=True)
    ap.add_argument("--python", required=True, type=shlex.split)
    ap.add_argument("--work")
    args = ap.parse_args()
    with tempfile.TemporaryDirectory(dir=args.work) as args.work:
        at = tempfile.mkdtemp() + "/cgroups"  # not below what is removed behind it
        mount(at)
        group, container = Group(at + "/chosen/below"), Group(at + "/docker/" + ID)
        wrong = (judge_trace(args, group, "--cgroup", at + "/chosen") or judge_trace(args, container, "--container", ID[:12]) or
                 judge_record(args, group, "--cgroup", "/chosen") or judge_threads(args))
    print("FAIL " + wrong if wrong else "chosen: by --cgroup and --container of version 1, and by --thread, nobody else")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(target(sys.argv[2]) if sys.argv[1:2] == ["target"] else main())
