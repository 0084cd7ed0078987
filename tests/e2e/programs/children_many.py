# SPDX-License-Identifier: Apache-2.0
"""Children that are forked one after the other; each defines a function and calls it. argv: how many, how
many calls of the parent's own between two of them, seconds that a child waits first."""
import os
import sys
import time


def busy(n):
    return n


def child():
    names = {}
    exec("def own(n):\n    return n\n", names)
    names["own"](1)


def main():
    count, calls, wait = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    sys.stdin.readline()
    for _ in range(count):
        pid = os.fork()
        if not pid:
            time.sleep(wait)
            child()
            os._exit(0)
        for i in range(calls):
            busy(i)
        os.waitpid(pid, 0)


main()
