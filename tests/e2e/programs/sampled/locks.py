# SPDX-License-Identifier: Apache-2.0
"""A thread for each kind of lock, waiting for it again and again for the given seconds. Says on a line which function
waits for what: the type, and the address of the object where it waits for one of its own."""
import concurrent.futures
import json
import os
import queue
import sys
import threading
import time

import _multiprocessing

event, lock, rlock, condition = threading.Event(), threading.Lock(), threading.RLock(), threading.Condition()
semaphore, waited, barrier = threading.Semaphore(0), queue.Queue(), threading.Barrier(2)
result, other = concurrent.futures.Future(), threading.Lock()
shared = _multiprocessing.SemLock(1, 1, 1, "/pyebpf-%d" % os.getpid(), True)
try:
    simple = queue.SimpleQueue()
except AttributeError:  # 3.6
    simple = None
end = time.time() + float(sys.argv[1])


class Holder(object):
    lock = other


def for_event():
    event.wait(0.04)


def for_lock():
    lock.acquire(True, 0.04)


def for_lock_in_with():
    with Holder.lock:  # once, until the end
        pass


def for_rlock():
    rlock.acquire(True, 0.04)


def for_condition():
    with condition:
        condition.wait(0.04)


def for_semaphore():
    semaphore.acquire(True, 0.04)


def for_queue():
    try:
        waited.get(True, 0.04)
    except queue.Empty:
        pass


def for_simple_queue():
    try:
        simple.get(True, 0.04)
    except queue.Empty:
        pass


def for_result():
    try:
        result.result(0.04)
    except concurrent.futures.TimeoutError:
        pass


def for_barrier():
    try:
        barrier.wait(0.04)
    except threading.BrokenBarrierError:
        barrier.reset()


def for_semlock():
    shared.acquire(True, 0.04)


def for_thread():
    waiter.join(0.04)


def again(what):
    while time.time() < end:
        what()


WAITS = [(for_event, "threading.Event", None), (for_lock, "threading.Lock", lock),
         (for_lock_in_with, "threading.Lock", other), (for_rlock, "threading.RLock", rlock),
         (for_condition, "threading.Condition", None), (for_semaphore, "threading.Semaphore", None),
         (for_queue, "queue.Queue", None), (for_result, "concurrent.futures.Future", None),
         (for_barrier, "threading.Barrier", None), (for_semlock, "multiprocessing.SemLock", shared),
         (for_thread, "threading.Thread", None)]
if simple:
    WAITS.append((for_simple_queue, "queue.SimpleQueue", simple))
lock.acquire()
other.acquire()
rlock.acquire()
shared.acquire()
waiter = threading.Thread(target=again, args=(lambda: time.sleep(0.04),))
threads = [waiter] + [threading.Thread(target=again, args=(f,)) for f, _, _ in WAITS]
for t in threads:
    t.start()
print(json.dumps({f.__name__: [kind, hex(id(what)) if what is not None else None] for f, kind, what in WAITS}))
sys.stdout.flush()
time.sleep(max(0, end - time.time()))
other.release()
for t in threads:
    t.join()
