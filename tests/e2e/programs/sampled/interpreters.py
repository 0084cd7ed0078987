# SPDX-License-Identifier: Apache-2.0
"""Two threads that run in subinterpreters (with locks of their own, where there are such), while main waits: sub_0 and sub_1
use argv[1] seconds of CPU time each, without what it took to make their interpreters. Says "0" and ends where there are no
subinterpreters."""
import sys
import threading

try:
    import _interpreters as interpreters
except ImportError:
    try:
        import _xxsubinterpreters as interpreters
    except ImportError:
        print(0)
        sys.exit()
run = interpreters.exec if sys.version_info >= (3, 13) else interpreters.run_string
CODE = """
import time
def sub_{0}():
    end = time.thread_time() + {1}
    while time.thread_time() < end:
        pass
sub_{0}()
"""


def in_main(number):
    interpreter = interpreters.create()
    run(interpreter, CODE.format(number, sys.argv[1]))


def main_waits(threads):
    for t in threads:
        t.join()


started = [threading.Thread(target=in_main, args=(n,)) for n in range(2)]
for t in started:
    t.start()
main_waits(started)
print(2)
