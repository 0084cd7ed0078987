#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`pyebpf trace` and `record` of a program that sets the machine's clock forward and back, and of one that the machine is suspended
under: all times are those of the clock that nobody sets. Only in a machine of one's own (scripts/vmtest): it sets the clock.

usage: clock.py --pyebpf BIN --python PY --suspended [--work DIR]
       clock.py target stepped|suspended: those programs
"""
import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time

TARGET = os.path.abspath(__file__)
LONGEST = 90  # s until somebody has suspended the machine


def spin():
    end = time.monotonic() + 0.3
    while time.monotonic() < end:
        pass


def stepped():
    begin = time.monotonic()
    for step in (3600, -7200, 3600):
        spin()
        time.clock_settime(time.CLOCK_REALTIME, time.time() + step)
    spin()
    return time.monotonic() - begin


def nap():
    begin = time.monotonic()
    time.sleep(0.05)
    return time.monotonic() - begin


def suspended():
    """Until a nap has taken a second: the machine was away."""
    print("suspend", file=sys.stderr, flush=True)
    begin = time.monotonic()
    while nap() < 1:
        if time.monotonic() > begin + LONGEST:
            sys.exit("nobody suspended the machine")
    return time.monotonic() - begin


def target(name):
    """The time that the function took as it sees it, and as its caller does, in ns."""
    begin = time.monotonic()
    inside = globals()[name]()
    print(json.dumps([int(inside * 1e9), int((time.monotonic() - begin) * 1e9)]))


def run(args, command, name):
    """(what the program said, its events or samples, the totals)"""
    capture = os.path.join(args.work, "c.pyebpf")
    done = subprocess.run([args.pyebpf, command, "-q", "--force", "-o", capture, "--", *shlex.split(args.python), "-S", TARGET, "target", name],
                          stdout=subprocess.PIPE, check=True)
    text = subprocess.run([args.pyebpf, "convert", "-q", capture, "-f", "ndjson", "-o", "-"], stdout=subprocess.PIPE, check=True).stdout
    lines = [json.loads(line) for line in text.decode("utf-8").splitlines()]
    return json.loads(done.stdout.decode()), lines[:-1], lines[-1]


def judge_trace(args, name):
    (inside, outside), events, meta = run(args, "trace", name)
    times = [e["ts_ns"] for e in events if e.get("name") == name and e["ev"] in ("call", "return")]
    if len(times) != 2 or not inside <= times[1] - times[0] <= outside:
        return "trace: %s at %s, which is between %d and %d ns" % (name, times, inside, outside)
    last = {}
    for e in events:
        if "tid" in e and e["ts_ns"] < last.get(e["tid"], 0):
            return "trace: an event before the one before it: %s" % e
        last[e.get("tid")] = e.get("ts_ns", 0)
    return "trace: dropped %s" % meta["dropped"] if any(meta["dropped"].values()) else None


def judge_record(args, name):
    (inside, outside), samples, meta = run(args, "record", name)
    seen = sum(s["weight_ns"] for s in samples if s["ev"] == "sample" and any(f["name"] == name for f in s["stack"]))
    # its first and last period, and the time until the first stack of a wait, are not its own
    if not 0.5 * inside <= seen <= outside + 1e8:
        return "record: %d ns of %s, which took between %d and %d" % (seen, name, inside, outside)
    return "record: dropped %s" % meta["dropped"] if any(meta["dropped"].values()) else None


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--pyebpf", required=True)
    ap.add_argument("--python", required=True)
    ap.add_argument("--work")
    ap.add_argument("--suspended", action="store_true", help="somebody suspends the machine when \"suspend\" is said")
    args = ap.parse_args()
    with tempfile.TemporaryDirectory(dir=args.work) as args.work:
        wrong = judge_trace(args, "stepped") or judge_record(args, "stepped")
        if args.suspended and not wrong:
            wrong = judge_trace(args, "suspended")
    print("FAIL " + wrong if wrong else "clock: set forward and back by hours%s, all times as they were"
          % (", the machine suspended" if args.suspended else ""))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(target(sys.argv[2]) if sys.argv[1:2] == ["target"] else main())
