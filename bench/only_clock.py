#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""only_clock.py RATE: the clock that pyebpf samples with, on each CPU, and no program that it runs, until SIGINT."""
import ctypes
import os
import signal
import struct
import sys

SYS_PERF_EVENT_OPEN = 298
SOFTWARE, CPU_CLOCK = 1, 0
ATTR_BYTES = 64  # PERF_ATTR_SIZE_VER0


def open_clock(cpu, rate):
    attr = struct.pack("<IIQQ", SOFTWARE, ATTR_BYTES, CPU_CLOCK, 10 ** 9 // rate).ljust(ATTR_BYTES, b"\0")
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(SYS_PERF_EVENT_OPEN, attr, -1, cpu, -1, 0) < 0:
        raise OSError(ctypes.get_errno(), "perf_event_open")


def main():
    for cpu in range(os.cpu_count()):
        open_clock(cpu, int(sys.argv[1]))
    signal.pause()


if __name__ == "__main__":
    main()
