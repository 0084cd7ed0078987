# SPDX-License-Identifier: Apache-2.0
"""run_already.py: children that wait, also below a shell, and one that starts Python later. Each says its pid on stderr, and begins once
a line has been read here: its calls of work() and those of a child that it forks then, and prints the pids and how many calls."""
import os
import subprocess
import sys


def work(n):
    return n


def say(n):
    for i in range(n):
        work(i)
    os.write(1, b"%d %d\n" % (os.getpid(), n))


def wait_and_work(fd, n):
    os.write(2, b"%d\n" % os.getpid())
    if not os.read(fd, 1):  # the parent was killed
        os._exit(1)
    say(n)
    pid = os.fork()
    if pid:
        os.waitpid(pid, 0)
    else:
        say(n + 100)


def main():
    if len(sys.argv) > 1:
        return wait_and_work(int(sys.argv[1]), int(sys.argv[2]))
    r, w = os.pipe()
    os.set_inheritable(r, True)
    kids = []
    for n in range(3):
        kids.append(os.fork())
        if not kids[-1]:
            os.close(w)
            wait_and_work(r, 200 + n)
            os._exit(0)
    me = [sys.executable, __file__, str(r)]
    shells = [subprocess.Popen(["sh", "-c", text, "sh"] + me + [n], close_fds=False)
              for text, n in (('"$@"; true', "300"), ('head -c 1 <&%d >/dev/null; "$@"; true' % r, "301"))]
    sys.stdin.readline()
    os.write(w, b"x" * 6)
    for pid in kids:
        os.waitpid(pid, 0)
    for shell in shells:
        shell.wait()


main()
