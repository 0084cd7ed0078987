"""usage: alarmed.py FLAG: a child, whose pid is printed, waits for what never comes, and is sent a signal when it does, again and
again until FLAG exists. Each one has to end its call: "fine"."""
import os
import random
import select
import signal
import sys
import time

PATIENCE = 30  # seconds


class Alarm(Exception):
    pass


def rings(*_):
    raise Alarm


def wait(never, told):
    signal.signal(signal.SIGALRM, rings)
    while True:
        try:
            if not os.read(never, 1):
                os._exit(1)  # nobody is there any more
        except Alarm:
            os.write(told, b"x")


def waits(pid, fd):
    with open("/proc/%d/syscall" % pid) as f:
        return f.read().split()[:2] == ["0", hex(fd)]


def ring(pid, never, told):
    """True when it ended the call."""
    while not waits(pid, never):
        pass
    time.sleep(random.uniform(0, 0.001))
    os.kill(pid, signal.SIGALRM)
    return bool(select.select([told], [], [], PATIENCE)[0]) and os.read(told, 1) == b"x"


never, held = os.pipe()
hears, told = os.pipe()
pid = os.fork()
if not pid:
    os.close(held)
    wait(never, told)
print(pid, flush=True)
good = True
while good and not os.path.exists(sys.argv[1]):
    good = ring(pid, never, hears)
os.kill(pid, signal.SIGKILL)
os.waitpid(pid, 0)
print("fine" if good else "one was not heard", flush=True)
