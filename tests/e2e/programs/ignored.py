"""usage: ignored.py FLAG THREADS MS: threads wait in a call that a handler would end, for so long or (-1) for ever, while signals that
nobody cares for come to them, until FLAG exists. Those wake nobody: how many calls ended with an error, or too early."""
import ctypes
import os
import select
import signal
import sys
import threading
import time

LIBC = ctypes.CDLL(None, use_errno=True)
MS = int(sys.argv[3])
END, EPOLL = os.pipe(), select.epoll()
EPOLL.register(END[0])
BAD = []


def wait():
    got = 0
    while got == 0:
        got = LIBC.epoll_wait(EPOLL.fileno(), ctypes.create_string_buffer(12), 1, MS)
        if got < 0 or (got == 0 and MS < 0):
            BAD.append((got, ctypes.get_errno()))


signal.signal(signal.SIGUSR2, signal.SIG_IGN)
threads = [threading.Thread(target=wait) for _ in range(int(sys.argv[2]))]
for t in threads:
    t.start()
print("up", flush=True)
while not os.path.exists(sys.argv[1]):
    for t in threads:
        for number in signal.SIGCHLD, signal.SIGWINCH, signal.SIGUSR2:
            signal.pthread_kill(t.ident, number)
            time.sleep(0.002)
os.write(END[1], b"x")
for t in threads:
    t.join()
print(len(BAD), flush=True)
