# SPDX-License-Identifier: Apache-2.0
"""Functions that know how long they take: known_cost.py CALLS prints it as JSON, in ns per call.

work() and child() wait for their own clock, so that what they say holds in a trace too, whatever the speed
of the machine at that time. What caller() adds to its children is only true in a run that is not traced."""
import json
import os
import sys
import time

clock = time.perf_counter_ns
CHILDREN = 20


def work():
    begin = clock()
    end = begin + 10000
    while True:
        now = clock()
        if now >= end:
            return now - begin


def child():
    begin = clock()
    end = begin + 2000
    while True:
        now = clock()
        if now >= end:
            return now - begin


def caller():
    i = inner = 0
    while i < CHILDREN:
        inner += child()
        i += 1
    return inner


def timed(function):
    begin = clock()
    inner = function()
    return inner, clock() - begin - inner


def main(calls):
    own, callers = [], []
    while len(own) < calls:
        own.append(work())
    while len(callers) < calls:
        callers.append(timed(caller))
    inner, outer = map(sorted, zip(*callers))
    return {"work": sorted(own)[calls // 2], "children": inner[calls // 2], "caller_itself": outer[calls // 2]}


if __name__ == "__main__":
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except PermissionError:
        pass
    main(30)
    print(json.dumps(main(int(sys.argv[1]))))
