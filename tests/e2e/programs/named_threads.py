# SPDX-License-Identifier: Apache-2.0
"""Threads with names: as an argument, by a subclass, changed while it runs, beyond ASCII, after their function. Says
"ready" and goes on until its standard input ends."""
import sys
import threading
import time


class Subclass(threading.Thread):
    def __init__(self):
        super().__init__(name="a subclass's with a name that is longer than fifteen")
        self.more, self.and_more = 1, 2

    def run(self):
        work()


def work():
    while not done.is_set():
        time.sleep(0.01)


done = threading.Event()
threads = [threading.Thread(target=work, name="worker-%d" % i) for i in range(3)]
threads += [Subclass(), threading.Thread(target=work, name="\u00fcn\u00ef\u4e2d"), threading.Thread(target=work)]
for thread in threads:
    thread.daemon = True
    thread.start()
threads[2].name = "renamed"
sys.stdout.write("%s\n" % threads[-1].name)
sys.stdout.flush()
sys.stdin.read()
done.set()
