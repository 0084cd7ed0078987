"""usage: blocked.py FLAG: 60 threads wait in system calls of all sorts, with time-outs and without, or work without the GIL, while
SIGALRM comes 5,000 times a second, until FLAG exists. No call may end early, late with nothing, or with an error: "fine"."""
import ctypes
import hashlib
import os
import select
import signal
import socket
import struct
import sys
import threading
import time

LIBC = ctypes.CDLL(None, use_errno=True)
WAIT = 0.004
DIGEST = hashlib.pbkdf2_hmac("sha256", b"a", b"b", 2000)
BAD, ALARMS = [], []
DONE = threading.Event()


class Timespec(ctypes.Structure):
    _fields_ = [("sec", ctypes.c_long), ("nsec", ctypes.c_long)]


def usleep():
    return LIBC.usleep(int(WAIT * 1e6)) == 0


def nanosleep():
    return LIBC.nanosleep(ctypes.byref(Timespec(0, int(WAIT * 1e9))), None) == 0


def poll():
    return LIBC.poll(None, 0, int(WAIT * 1e3)) == 0


def epoll_wait():
    return LIBC.epoll_wait(EPOLL.fileno(), ctypes.create_string_buffer(12), 1, int(WAIT * 1e3)) == 0


def semaphore():
    operation = ctypes.create_string_buffer(b"\0\0\xff\xff\0\0")  # take one that never comes
    got = LIBC.semtimedop(SEMAPHORES, operation, 1, ctypes.byref(Timespec(0, int(WAIT * 1e9))))
    return got == -1 and ctypes.get_errno() == 11


def receive_timed():
    """Its time is measured in ticks of the kernel: the first one may be short."""
    return LIBC.recv(TIMED_PAIR[0].fileno(), ctypes.create_string_buffer(1), 1, 0) == -1 and ctypes.get_errno() == 11


def signal_timed():
    return LIBC.sigtimedwait(USR1, None, ctypes.byref(Timespec(0, int(WAIT * 1e9)))) == -1 and ctypes.get_errno() == 11


def lock():
    return not LOCK.acquire(timeout=WAIT)


def receive():
    return PAIR[0].recv(1) == b"x"


def read_pipe():
    return os.read(PIPE[0], 1) == b"x"


def digest():
    return hashlib.pbkdf2_hmac("sha256", b"a", b"b", 2000) == DIGEST


def give():
    time.sleep(WAIT / 4)
    PAIR[1].send(b"x")
    os.write(PIPE[1], b"x")
    return True


TIMED = (usleep, nanosleep, poll, epoll_wait, semaphore, signal_timed, lock)
OTHERS = (receive_timed, receive, read_pipe, digest, give)


def work(call):
    while not DONE.is_set():
        ctypes.set_errno(0)
        start = time.monotonic()
        good = call()
        took = time.monotonic() - start
        if not good or (call in TIMED and took < WAIT * 0.98):
            BAD.append((call.__name__, good, took, ctypes.get_errno()))


EPOLL = select.epoll()
LOCK = threading.Lock()
LOCK.acquire()
PAIR, PIPE = socket.socketpair(), os.pipe()
TIMED_PAIR = socket.socketpair()
TIMED_PAIR[0].setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, int(WAIT * 1e6)))
USR1 = ctypes.create_string_buffer(128)
LIBC.sigemptyset(USR1)
LIBC.sigaddset(USR1, signal.SIGUSR1)
SEMAPHORES = LIBC.semget(0, 1, 0o600)
signal.signal(signal.SIGALRM, lambda *_: ALARMS.append(1))
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])  # those threads, where C code would see EINTR
calls = [call for call in TIMED + OTHERS for _ in range(5)]
threads = [threading.Thread(target=work, args=(call,)) for call in calls]
for t in threads:
    t.start()
signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGALRM])
signal.setitimer(signal.ITIMER_REAL, 0.0002, 0.0002)
print("up", flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.001)
signal.setitimer(signal.ITIMER_REAL, 0)
DONE.set()
for _ in threads:  # those that wait without a time-out
    give()
for t in threads:
    t.join()
LIBC.semctl(SEMAPHORES, 0, 0)
print(BAD[:3] if BAD or not ALARMS else "fine", flush=True)
