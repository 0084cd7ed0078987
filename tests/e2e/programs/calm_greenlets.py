"""usage: calm_greenlets.py: with the first line that comes in a thread goes on to a greenlet that has run before, and that does nothing
which is an event; with the second one another thread makes many calls; with the third one the first thread's greenlets call in turns."""
import sys
import threading

import greenlet


def one_leaf(): pass
def two_leaf(): pass


def one_inner():
    for _ in range(20):
        one_leaf()
        two.switch()


def two_inner():
    two_leaf()
    one.switch()
    wait()
    for _ in range(18):
        two_leaf()
        one.switch()


def one_root(): one_inner()
def two_root(): two_inner()


def calm():
    global one, two
    one, two = greenlet.greenlet(one_root), greenlet.greenlet(two_root)
    begin()
    one.switch()


def say(word):
    print(word, flush=True)
    sys.stdin.readline()


def busy(): pass


locks = [threading.Lock() for _ in range(2)]
begin, wait = (lock.acquire for lock in locks)
for lock in locks:
    lock.acquire()
thread = threading.Thread(target=calm)
thread.start()
say("ready")
locks[0].release()
say("calm")
for _ in range(100000):
    busy()
say("lost")
locks[1].release()
thread.join()
say("done")
