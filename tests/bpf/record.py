#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`pyebpf record` of a known program: whole stacks of the thread that computes, the right reason for each that waits, and all
of its time. Nothing depends on how fast the machine is.

usage: record.py --pyebpf BIN --python PY [--work DIR]
       record.py target: that program
"""
import argparse
import collections
import json
import os
import shlex
import subprocess
import sys
import tempfile
import threading
import time

TARGET = os.path.abspath(__file__)
WAITS = {"asleep": "sleep", "locked": "lock", "reading": "io"}


def red2(end):
    x = 0
    while time.time() < end:
        for i in range(1000):
            x += i


def red1(end):
    red2(end)


def red0(end):
    red1(end)


def asleep(begun):
    begun.append(time.time())
    time.sleep(2)


def locked(begun):
    begun.append(time.time())
    LOCK.acquire()


def reading(begun):
    begun.append(time.time())
    os.read(PIPE[0], 1)


def target():
    """Says how many ns each thread waited at least."""
    begun = {f.__name__: [] for f in (asleep, locked, reading)}
    threads = [threading.Thread(target=f, args=(begun[f.__name__],)) for f in (asleep, locked, reading)]
    LOCK.acquire()
    for t in threads:
        t.start()
    while not all(begun.values()):
        time.sleep(0.01)
    red0(time.time() + 2)
    waited = {name: int((time.time() - at[0]) * 1e9) for name, at in begun.items()}
    waited["asleep"] = int(2e9)
    LOCK.release()
    os.write(PIPE[1], b"x")
    for t in threads:
        t.join()
    print(json.dumps(waited))


def samples(pyebpf, python, work):
    capture = os.path.join(work, "r.pyebpf")
    done = subprocess.run([pyebpf, "record", "-q", "--mode", "wall", "-r", "199", "-o", capture, "--", *python, TARGET, "target"],
                          stdout=subprocess.PIPE, check=True)
    text = subprocess.run([pyebpf, "convert", "-q", capture, "-f", "ndjson", "-o", "-"], stdout=subprocess.PIPE, check=True).stdout
    lines = [json.loads(line) for line in text.decode("utf-8").splitlines()]
    return json.loads(done.stdout.decode()), [e for e in lines if e["ev"] == "sample"], lines[-1]


def judge(waited, found, meta):
    on, off, unread = collections.Counter(), collections.Counter(), 0
    for e in found:
        if any(f["name"].startswith("[unreadable") for f in e["stack"]):  # it says so itself
            unread += 1
            continue
        names = [f["name"] for f in e["stack"] if f["file"] == TARGET]
        if e["state"] == "on":
            on[tuple(names)] += 1
        elif names:
            off[names[-1], e["reason"]] += e["weight_ns"]
    spun = {stack: n for stack, n in on.items() if "red2" in stack}
    wrong = [stack for stack in spun if stack != ("<module>", "target", "red0", "red1", "red2")]
    if wrong or sum(spun.values()) < 10 or unread > 0.05 * len(found):
        return "stacks: %s, %d unread" % (on, unread)
    # a thread that comes to its wait late has lost the CPU or the interpreter's lock before
    short = [name for name, why in WAITS.items() if off[name, why] < 0.6 * waited[name]]
    if short:
        return "waits of %s: %s, and the program says %s" % (short, off, waited)
    return judge_dropped(meta["dropped"], len(found))


def judge_dropped(dropped, found):
    """To 6.1 a clock that ticks while another program of ours looks up a thread on that CPU gets none: counted, and rare."""
    old = tuple(int(n) for n in os.uname().release.split(".")[:2]) < (6, 2)
    rest = {why: n for why, n in dropped.items() if n and not (old and why == "map" and n <= 0.01 * found)}
    return "dropped: %s" % rest if rest else None


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--pyebpf", required=True)
    ap.add_argument("--python", required=True)
    ap.add_argument("--work")
    a = ap.parse_args()
    with tempfile.TemporaryDirectory(dir=a.work) as work:
        waited, found, meta = samples(a.pyebpf, shlex.split(a.python), work)
    wrong = judge(waited, found, meta)
    print("FAIL " + wrong if wrong else "record: %d samples, stacks and waits as the program says" % len(found))
    return 1 if wrong else 0


LOCK, PIPE = threading.Lock(), os.pipe()
if __name__ == "__main__":
    sys.exit(target() if sys.argv[1:] == ["target"] else main())
