"""numbered.py NUMBER COMMAND...: runs it in a process with this number; its exit status. That number is taken as soon as it is free."""
import ctypes
import errno
import os
import sys
import time

CLONE3 = 435
SIGCHLD = 17
ARGS = ctypes.c_uint64 * 11  # struct clone_args, to cgroup


def clone(number):
    """As os.fork(), and a number to begin with: of the innermost namespace."""
    pids = (ctypes.c_int * 1)(number)
    args = ARGS(0, 0, 0, 0, SIGCHLD, 0, 0, 0, ctypes.addressof(pids), 1, 0)
    libc = ctypes.CDLL(None, use_errno=True)
    pid = libc.syscall(CLONE3, args, ctypes.sizeof(args))
    if pid < 0:
        raise OSError(ctypes.get_errno(), "clone3")
    return pid


def main():
    end = time.monotonic() + 30
    while True:
        try:
            pid = clone(int(sys.argv[1]))
            break
        except OSError as err:
            if err.errno != errno.EEXIST or time.monotonic() > end:
                raise
            time.sleep(0.01)
    if not pid:
        os.execvp(sys.argv[2], sys.argv[2:])
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


main()
