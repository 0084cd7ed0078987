"""usage: pieces.py WAYS THREADS END: calls that take a while, as whoever reads or writes at the other end does it piece by piece: each has
to do all of its work, in order, until there is a file END: "fine N", for so many. One thread (0: the only one) for each way, as many times."""
import os
import socket
import sys
import tempfile
import threading
import time

SIZE, PIECE, PAUSE = 300007, 16384, 0.001
DATA = bytes(i % 251 for i in range(SIZE))
BAD, COUNT, ENDS = [], [], []


def take(fd):
    """All of it, in order."""
    got = b""
    while True:
        piece = os.read(fd, PIECE)
        got += piece
        while len(got) >= SIZE:
            if got[:SIZE] != DATA:
                os._exit(1)
            got = got[SIZE:]
        if not piece:
            os._exit(1 if got else 0)
        time.sleep(PAUSE)


def give(fd):
    try:
        while True:
            for at in range(0, SIZE, PIECE):
                piece = DATA[at:at + PIECE]
                while piece:
                    piece = piece[os.write(fd, piece):]
                time.sleep(PAUSE)
    except OSError:
        os._exit(0)


def child(other_end, fd, own):
    """Its process, which has no end of the others."""
    pid = os.fork()
    if not pid:
        for end in ENDS + [own]:
            os.close(end)
        other_end(fd)
    os.close(fd)
    ENDS.append(own)
    return pid


def write():
    out, end = os.pipe()
    pid = child(take, out, end)
    return lambda: os.write(end, DATA) == SIZE, lambda: os.close(end), pid


def pair(other_end):
    ours, theirs = socket.socketpair()
    return ours, child(other_end, theirs.detach(), ours.fileno())


def send():
    ours, pid = pair(take)
    return lambda: ours.send(DATA) == SIZE, ours.close, pid


VECTOR = [DATA[:7], DATA[7:100000], b"", DATA[100000:200001], DATA[200001:]]


def writev():
    out, end = os.pipe()
    pid = child(take, out, end)
    return lambda: os.writev(end, VECTOR) == SIZE, lambda: os.close(end), pid


def sendmsg():
    ours, pid = pair(take)
    return lambda: ours.sendmsg(VECTOR) == SIZE, ours.close, pid


def sendfile():
    ours, pid = pair(take)
    file = tempfile.TemporaryFile()
    file.write(DATA)
    file.flush()
    return lambda: os.sendfile(ours.fileno(), file.fileno(), 0, SIZE) == SIZE, ours.close, pid


def receive():
    ours, pid = pair(give)
    return lambda: ours.recv(SIZE, socket.MSG_WAITALL) == DATA, ours.close, pid


def work(way, call, end):
    count = 0
    while not os.path.exists(end):
        if not call():
            BAD.append(way.__name__)
        count += 1
    COUNT.append(count)


def main(ways, threads, end):
    ways = [globals()[way] for way in ways.split(",")] * max(1, threads)
    made = [way() for way in ways]
    print("up", flush=True)
    if threads:
        workers = [threading.Thread(target=work, args=(way, call, end)) for way, (call, _, _) in zip(ways, made)]
        for w in workers:
            w.start()
        for w in workers:
            w.join()
    else:
        work(ways[0], made[0][0], end)
    for _, close, pid in made:
        close()
        if os.waitpid(pid, 0)[1]:
            BAD.append("not what was sent")
    print(BAD or "fine %d" % sum(COUNT), flush=True)


main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
