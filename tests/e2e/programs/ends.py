"""usage: ends.py HOW OUT: ends in the middle of calls, after it wrote how many there were."""
import os
import signal
import sys
import threading


def leaf(n):
    return n


def down(n):
    if n:
        return down(n - 1)
    for i in range(1000):
        leaf(i)
    with open(sys.argv[2], "w") as f:
        f.write("1000")
    end()


def end():
    how = sys.argv[1]
    if how == "_exit":
        os._exit(3)
    if how == "exit":
        sys.exit(4)
    if how == "abort":
        os.abort()
    if how == "raise":
        raise KeyError("at the end")
    if how == "segv":
        import ctypes
        ctypes.string_at(0)
    if how == "thread_exit":
        t = threading.Thread(target=os._exit, args=(5,))
        t.start()
        t.join()
    if how == "exec":
        os.execv("/bin/sh", ["sh", "-c", "exit 6"])
    os.kill(os.getpid(), getattr(signal, how))
    signal.pause()


down(10)
