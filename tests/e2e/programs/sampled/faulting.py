# SPDX-License-Identifier: Apache-2.0
"""A thread that touches a page which comes half a second later: its memory is handed out by a userfaultfd. Says for how long, or
"0" where the kernel has none."""
import ctypes
import mmap
import os
import struct
import sys
import threading
import time

USERFAULTFD, CLOEXEC = 323, 0o2000000
API, REGISTER, ZEROPAGE = 0xc018aa3f, 0xc020aa00, 0xc020aa04
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.ioctl.argtypes = [ctypes.c_int, ctypes.c_ulong, ctypes.c_void_p]


def ioctl(fd, number, *words):
    argument = ctypes.create_string_buffer(struct.pack("<%dQ" % len(words), *words), 64)
    if LIBC.ioctl(fd, number, argument) < 0:
        raise OSError(ctypes.get_errno(), "ioctl")


def touching(address, to):
    LIBC.memcpy(to, ctypes.c_void_p(address), 1)


fd = LIBC.syscall(USERFAULTFD, CLOEXEC)
if fd < 0:
    print(0)
    sys.exit()
ioctl(fd, API, 0xaa, 0, 0)
page = mmap.mmap(-1, mmap.PAGESIZE)
address = ctypes.addressof(ctypes.c_char.from_buffer(page))
ioctl(fd, REGISTER, address, mmap.PAGESIZE, 1, 0)
thread = threading.Thread(target=touching, args=(address, ctypes.create_string_buffer(1)))
begin = time.time()
thread.start()
time.sleep(0.5)
ioctl(fd, ZEROPAGE, address, mmap.PAGESIZE, 0, 0)
thread.join()
print(time.time() - begin)
os.close(fd)
