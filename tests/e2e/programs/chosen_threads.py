# SPDX-License-Identifier: Apache-2.0
"""chosen_threads.py: threads of all sorts of names, given before, while they run, by others. Says "ready" when the first ones
wait, goes on at a line of standard input. Prints, as JSON, how often tick() ran under each name."""
import _thread
import collections
import json
import sys
import threading

counts = collections.Counter()
lock = threading.Lock()


class Named(object):
    """No str: its name is made one by Python code."""
    def __init__(self, name):
        self.name = name

    def __str__(self):
        return self.name


class Subclass(threading.Thread):
    """Its attributes lie elsewhere: there are others in front."""
    def __init__(self, name):
        self.before = self.too = 0
        super(Subclass, self).__init__(name=name)
        self.after = 1

    def run(self):
        work(40)


def tick():
    return 1


def ticks(name, n):
    for _ in range(n):
        tick()
    with lock:
        counts[name] += n


def work(n):
    ticks(threading.current_thread().name, n)


def rename_itself():
    me = threading.current_thread()
    for n, name in enumerate(["pool-1", "elsewhere", Named("pool-a name of more than fifteen bytes"), "elsewhere"]):
        me.name = name
        ticks(str(name), 50 + n)


def renamed_by_others(steps):
    for n, (go, done) in enumerate(steps):
        go.wait()
        work(60 + n)
        done.set()


def waits():
    go.wait()
    work(30)


def nameless():
    ticks("?", 20)
    nameless_done.release()


go = threading.Event()
first = [threading.Thread(target=waits, name=name) for name in ("pool-early", "early", "pool-\u00fcn\u00ef\u4e2d")]
first.append(threading.Thread(target=waits, name="later another"))
for thread in first:
    thread.start()
sys.stdout.write("ready\n")
sys.stdout.flush()
sys.stdin.readline()
first[-1].name = "pool-late"
go.set()
threads = [threading.Thread(target=work, args=(10,), name=name) for name in ("pool-2", "pool", "pool-" + 300 * "x", "io")]
threads += [Subclass("pool-sub"), Subclass("sub"), threading.Thread(target=work, args=(5,)),
            threading.Thread(target=rename_itself, name="elsewhere")]
for thread in threads:
    thread.start()
steps = [(threading.Event(), threading.Event()) for _ in range(3)]
other = threading.Thread(target=renamed_by_others, args=(steps,), name="nobody")
other.start()
for (go_on, done), name in zip(steps, ("pool-by another", "nobody", "pool-again")):
    other.name = name
    go_on.set()
    done.wait()
nameless_done = _thread.allocate_lock()
nameless_done.acquire()
_thread.start_new_thread(nameless, ())
nameless_done.acquire()
ticks("MainThread", 70)
for thread in first + threads + [other]:
    thread.join()
json.dump(counts, sys.stdout)
