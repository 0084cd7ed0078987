# SPDX-License-Identifier: Apache-2.0
"""The main thread waits for a lock, a thread, a queue and a socket, some time each, while two threads compute and want the
interpreter's lock all the time. Says of each wait how many ns of it passed before what it waited for was there."""
import json
import queue
import select
import socket
import sys
import threading
import time

over = False
begun = []


def computing():
    x = 0
    while not over:
        for i in range(1000):
            x += i


def in_lock(lock):
    begun.append(time.monotonic())
    lock.acquire()


def in_join(thread):
    begun.append(time.monotonic())
    thread.join()


def in_queue(waited):
    begun.append(time.monotonic())
    waited.get()


def in_select(end):
    begun.append(time.monotonic())
    select.select([end], [], [])


def after_a_while(give, said):
    """Another thread gives what the main thread waits for, and notes when."""
    while not begun:
        time.sleep(0.01)
    time.sleep(0.4)
    said.append(time.monotonic())
    give()


def waits(wait, what, give):
    said = []
    giver = threading.Thread(target=after_a_while, args=(give, said))
    del begun[:]
    giver.start()
    wait(giver if what is None else what)
    giver.join()
    return int((said[0] - begun[0]) * 1e9)


lock, full, ends = threading.Lock(), queue.Queue(), socket.socketpair()
lock.acquire()
threads = [threading.Thread(target=computing) for _ in range(2)]
for t in threads:
    t.start()
print(json.dumps({"in_lock": waits(in_lock, lock, lock.release), "in_join": waits(in_join, None, lambda: None),
                  "in_queue": waits(in_queue, full, lambda: full.put(1)),
                  "in_select": waits(in_select, ends[0], lambda: ends[1].send(b"x"))}))
sys.stdout.flush()
over = True
for t in threads:
    t.join()
