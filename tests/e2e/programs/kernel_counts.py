"""usage: kernel_counts.py DIRECTORY [SECONDS]: threads wait in system calls: SECONDS that the kernel counts on across a stop, or until the main
thread ends it after so long; or for short, again and again. Each has to end as it would alone, and less than two seconds late: "fine"."""
import ctypes
import fcntl
import os
import select
import socket
import struct
import sys
import threading
import time

SECONDS, LATE, SHORT_NS = int(sys.argv[2]) if len(sys.argv) > 2 else 3, 2, 50000000
LIBC = ctypes.CDLL(None, use_errno=True)
AGAIN, NOT_THERE, TIMED_OUT, MONOTONIC, ABSOLUTE = 11, 38, 62, 1, 1
SYS_PREADV2, SYS_SPLICE, SYS_IO_URING_SETUP, SYS_IO_URING_ENTER = 327, 275, 425, 426
SYS_IO_SETUP, SYS_IO_GETEVENTS, SYS_EPOLL_PWAIT2, SIGUSR1 = 206, 208, 441, 10
BAD, DONE = [], threading.Event()


class Timespec(ctypes.Structure):
    _fields_ = [("sec", ctypes.c_long), ("nsec", ctypes.c_long)]


def duration():
    return ctypes.byref(Timespec(SECONDS, 0))


def nanosleep():
    return LIBC.nanosleep(duration(), None) == 0


def clock_nanosleep():
    now = time.clock_gettime(MONOTONIC) + SECONDS
    until = Timespec(int(now), int(now % 1 * 1e9))
    return LIBC.clock_nanosleep(MONOTONIC, ABSOLUTE, ctypes.byref(until), None) == 0


def poll():
    return LIBC.poll(None, 0, SECONDS * 1000) == 0


def ppoll():
    return LIBC.ppoll(None, 0, duration(), None) == 0


def select_():
    return LIBC.select(0, None, None, None, duration()) == 0


def pselect():
    return LIBC.pselect(0, None, None, None, duration(), None) == 0


def epoll_wait():
    return LIBC.epoll_wait(EPOLL.fileno(), ctypes.create_string_buffer(12), 1, SECONDS * 1000) == 0


def epoll_pwait():
    return LIBC.epoll_pwait(EPOLL.fileno(), ctypes.create_string_buffer(12), 1, SECONDS * 1000, None) == 0


def epoll_pwait2():
    return raw(SYS_EPOLL_PWAIT2, EPOLL.fileno(), ctypes.create_string_buffer(12), 1, duration(), None, 8) == 0


def io_getevents():
    return raw(SYS_IO_GETEVENTS, CONTEXT.value, 1, 1, ctypes.create_string_buffer(32), duration()) == 0


def sigtimedwait():
    waited = (ctypes.c_ulong * 16)(1 << (SIGUSR1 - 1))
    return LIBC.sigtimedwait(waited, None, duration()) == -1 and ctypes.get_errno() == AGAIN


def semtimedop():
    lower = (ctypes.c_short * 3)(0, -1, 0)
    return LIBC.semtimedop(SEMAPHORE, lower, ctypes.c_long(1), duration()) == -1 and ctypes.get_errno() == AGAIN


def of_socket(option, call, *args):
    """In a call that a time-out of the socket's ends."""
    own, other = socket.socketpair()
    if option == socket.SO_SNDTIMEO:
        own.setblocking(False)
        try:
            while True:
                own.send(b"x" * 4096)
        except BlockingIOError:
            own.setblocking(True)
    time_out = struct.pack("ll", SECONDS, 0)
    own.setsockopt(socket.SOL_SOCKET, option, time_out)
    ended = call(own.fileno(), *args) == -1 and ctypes.get_errno() == AGAIN
    return ended and own.getsockopt(socket.SOL_SOCKET, option, 16) == time_out and other.fileno() >= 0


def recv():
    return of_socket(socket.SO_RCVTIMEO, LIBC.recv, ctypes.create_string_buffer(8), 8, 0)


def read():
    return of_socket(socket.SO_RCVTIMEO, LIBC.read, ctypes.create_string_buffer(8), 8)


def send():
    return of_socket(socket.SO_SNDTIMEO, LIBC.send, ctypes.create_string_buffer(8), 8, 0)


def io_uring_for_long():
    return in_io_uring(Timespec(SECONDS, 0))


def lock():
    return not LOCK.acquire(timeout=SECONDS)


def accept():
    return LIBC.accept(LISTENER.fileno(), None, None) >= 0


def flock():
    return LIBC.flock(LOCKED.fileno(), fcntl.LOCK_EX) == 0


def lockf():
    return LIBC.lockf(BY_CHILD.fileno(), 1, 0) == 0  # F_LOCK


def waitpid():
    status = ctypes.c_int()
    return LIBC.waitpid(CHILD, ctypes.byref(status), 0) == CHILD and status.value == 7 << 8


def receive():
    return LIBC.msgrcv(QUEUE, ctypes.create_string_buffer(16), 8, 0, 0) == 8


def open_fifo():
    return LIBC.open(os.fsencode(FIFO), os.O_RDONLY) >= 0


def raw(number, *args):
    return LIBC.syscall(ctypes.c_long(number), *[a if a is None or hasattr(a, "_obj") or isinstance(a, ctypes.Array)
                                                 else ctypes.c_long(a) for a in args])


def splice():
    return raw(SYS_SPLICE, IMPATIENT[0].fileno(), None, PIPE[1], None, 1, 0) == -1 and ctypes.get_errno() == AGAIN


def preadv2():
    place = ctypes.create_string_buffer(1)
    vector = (ctypes.c_ulong * 2)(ctypes.addressof(place), 1)
    return raw(SYS_PREADV2, IMPATIENT[0].fileno(), vector, 1, -1, -1, 0) == -1 and ctypes.get_errno() == AGAIN


def io_uring():
    return in_io_uring(Timespec(0, SHORT_NS))


def in_io_uring(until):
    """For an event that does not come; GETEVENTS and EXT_ARG."""
    arg = (ctypes.c_ulong * 3)(0, 0, ctypes.addressof(until))
    return raw(SYS_IO_URING_ENTER, URING, 0, 1, 1 | 8, arg, 24) == -1 and ctypes.get_errno() == TIMED_OUT


LONG = [nanosleep, clock_nanosleep, poll, ppoll, select_, pselect, epoll_wait, epoll_pwait, sigtimedwait, semtimedop, lock, recv, read, send]
ENDED = [accept, flock, lockf, waitpid, receive, open_fifo]
SHORT = [splice, preadv2]


def once(call):
    ctypes.set_errno(0)
    start = time.monotonic()
    good = call()
    took, error = time.monotonic() - start, ctypes.get_errno()
    if not good or (call not in SHORT and not 0.98 * SECONDS < took < SECONDS + LATE):
        BAD.append((call.__name__, good, took, error))


def often(call):
    while not DONE.is_set():
        once(call)


def child(held, ready, go):
    fcntl.lockf(held, fcntl.LOCK_EX)
    os.write(ready[1], b"x")
    os.read(go[0], 1)
    os._exit(7)


os.chdir(sys.argv[1])
LOCK = threading.Lock()
LOCK.acquire()
EPOLL = select.epoll()
LISTENER = socket.socket(socket.AF_UNIX)
LISTENER.bind("socket")
LISTENER.listen(1)
HOLDER, LOCKED, BY_CHILD = open("held", "w"), open("held", "w"), open("by_child", "w")
fcntl.flock(HOLDER, fcntl.LOCK_EX)
READY, GO = os.pipe(), os.pipe()
CHILD = os.fork()
if not CHILD:
    child(BY_CHILD, READY, GO)
os.read(READY[0], 1)
QUEUE = LIBC.msgget(0, 0o600)
FIFO = "fifo"
os.mkfifo(FIFO)
IMPATIENT, PIPE = socket.socketpair(), os.pipe()
IMPATIENT[0].setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, SHORT_NS // 1000))
URING = raw(SYS_IO_URING_SETUP, 4, ctypes.create_string_buffer(120))
if URING >= 0:  # not forbidden
    SHORT.append(io_uring)
    LONG.append(io_uring_for_long)
CONTEXT, SEMAPHORE = ctypes.c_ulong(0), LIBC.semget(0, 1, 0o600)
if raw(SYS_EPOLL_PWAIT2, -1, None, 1, None, None, 8) == -1 and ctypes.get_errno() != NOT_THERE:
    LONG.append(epoll_pwait2)
if raw(SYS_IO_SETUP, 1, ctypes.byref(CONTEXT)) == 0:
    LONG.append(io_getevents)
threads = [threading.Thread(target=once, args=(call,)) for call in LONG + ENDED]
threads += [threading.Thread(target=often, args=(call,)) for call in SHORT]
for t in threads:
    t.start()
print("up", flush=True)
time.sleep(SECONDS)
socket.socket(socket.AF_UNIX).connect("socket")
fcntl.flock(HOLDER, fcntl.LOCK_UN)
os.write(GO[1], b"x")
LIBC.msgsnd(QUEUE, ctypes.create_string_buffer(struct.pack("l8s", 1, b"x")), 8, 0)
os.open(FIFO, os.O_WRONLY)
for t in threads[:len(LONG + ENDED)]:
    t.join()
DONE.set()
for t in threads:
    t.join()
LIBC.msgctl(QUEUE, 0, None)
LIBC.semctl(SEMAPHORE, 0, 0)
print(BAD if BAD else "fine", flush=True)
