# SPDX-License-Identifier: Apache-2.0
"""usage: crowd.py starts|alive N: N threads, one after the other, as fast as they can be started; or all at once, and they
wait until main has used some CPU time. Says the CPU time of the process, their ids (from 3.8 on), and of those that waited:
id, how often the kernel says that it gave the CPU away of its own accord meanwhile, ns that it did not have it."""
import resource
import sys
import threading
import time

tids = []
waits = []


def work():
    tids.append(threading.get_native_id() if sys.version_info >= (3, 8) else 0)


def without_cpu():
    left = resource.getrusage(1).ru_nvcsw  # RUSAGE_THREAD
    return left, time.monotonic() - time.thread_time()


def waiting(go):
    work()
    left, away = without_cpu()
    go.wait()
    left_then, away_then = without_cpu()
    waits.append("%d:%d:%d" % (threading.get_native_id(), left_then - left, (away_then - away) * 1e9))


def spinning():
    until = time.thread_time() + 0.3
    while time.thread_time() < until:
        pass


kind, count = sys.argv[1], int(sys.argv[2])
threading.stack_size(128 << 10)
if kind == "starts":
    for _ in range(count):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
else:
    events = [threading.Event() for _ in range(count)]
    threads = [threading.Thread(target=waiting, args=(go,)) for go in events]
    for thread in threads:
        thread.start()
    spinning()
    for go, thread in zip(events, threads):  # all at once, and they would fight for the interpreter's lock
        go.set()
        thread.join()
print(time.process_time())
print(*tids)
print(*waits)
