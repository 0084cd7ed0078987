"""usage: scribble.py WHAT: waits until the inline engine is at work, then writes into what it shares with pyebpf, again and
again until it is let go; calls all the time, and ends well."""
import contextlib
import os
import random
import sys
import time

IL_RING = 0x1000 + 32 * 4096  # from the beginning of the shared memory, user/inline/region.h
MEM = os.open("/proc/self/mem", os.O_RDWR)  # where it is gone a write fails


def add(a, b):
    return a + b


def shared():
    with open("/proc/self/maps", "rb") as f:
        for line in f:
            if b" rw-s " in line and b"/memfd:" in line:
                start, end = line.split()[0].split(b"-")
                return int(start, 16), int(end, 16) - int(start, 16)
    return None


def scribble(what, start, size):
    bits = random.Random(what).getrandbits
    if what in ("head", "low", "odd"):
        time.sleep(0.1)  # what was written until now is read
        if what == "low" and not any(os.pread(MEM, 8, start)):
            return  # it is at its beginning yet
        # nothing of Python is called until it is let go: the stubs do not write over it
        head = {"head": 1 << 63, "low": 0, "odd": int.from_bytes(os.pread(MEM, 8, start), "little") + 7}[what]
        os.pwrite(MEM, head.to_bytes(8, "little"), start)
        if what == "low":
            add(1, 2)
        while b"/memfd:" in open("/proc/self/maps", "rb").read():
            time.sleep(0.001)
    elif what == "tail":
        os.pwrite(MEM, bytes(8), start + 64)
    elif what == "counters":
        os.pwrite(MEM, bits(8 * 3968).to_bytes(3968, "little"), start + 128)
    elif what == "zeros":
        os.pwrite(MEM, bytes(size - IL_RING), start + IL_RING)
    else:
        noise = bytearray(bits(8 << 16).to_bytes(1 << 16, "little"))
        if what == "records":
            noise[8::16] = b"\7" * len(noise[8::16])
            noise[14::16] = bytes(i % 8 for i in range(len(noise) // 16))
            noise[15::16] = bytes(len(noise) // 16)
        os.pwrite(MEM, noise * ((size - IL_RING) // len(noise)), start + IL_RING)


print("up", flush=True)
place = None
while not place:
    time.sleep(0.001)
    place = shared()
while place:
    for i in range(2000):
        add(i, i)
    with contextlib.suppress(OSError):
        scribble(sys.argv[1], *place)
    place = shared()
print("fine", flush=True)
