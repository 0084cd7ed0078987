"""named.py: threads that change their names, and a call that takes long. Prints, as JSON, how often tick() ran under each name."""
import collections
import json
import os
import sys
import threading
import time

counts = collections.Counter()
lock = threading.Lock()


def tick():
    return 1


def rename(name):
    fd = os.open("/proc/thread-self/comm", os.O_WRONLY)
    os.write(fd, name.encode())
    os.close(fd)


def ticks(name, n):
    for _ in range(n):
        tick()
    with lock:
        counts[name] += n


def work(names):
    for i, name in enumerate(names):
        rename(name)
        ticks(name, 100 + 10 * i)
    with lock:
        pass


def slow():
    time.sleep(0.03)


def main():
    threads = [threading.Thread(target=work, args=(names,)) for names in (
        ["pool-1", "idle", "pool-22", "idle", "pool-1"], ["io"], ["pool-3"], ["gc", "poolside", "pool-4"])]
    for thread in threads:
        thread.start()
    ticks("main", 50)
    for thread in threads:
        thread.join()
    for _ in range(3):
        slow()
    json.dump(counts, sys.stdout)


main()
