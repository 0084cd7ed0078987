# SPDX-License-Identifier: Apache-2.0
"""usage: crowd.py starts|alive N: N threads, one after the other, as fast as they can be started; or all at once, and they
wait until main has used some CPU time. Says their ids (from 3.8 on), and the CPU time of the process."""
import sys
import threading
import time

tids = []


def work():
    tids.append(threading.get_native_id() if sys.version_info >= (3, 8) else 0)


def waiting(go):
    work()
    go.wait()


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
