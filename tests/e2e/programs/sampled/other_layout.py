"""Stands still with a stack of code objects whose names lie where no release has them."""
import ctypes
import os
import sys

code = sys._getframe().f_code
names = {id(code.co_name), id(code.co_filename), id(getattr(code, "co_qualname", code.co_name))}
words = (ctypes.c_size_t * (sys.getsizeof(code) // 8)).from_address(id(code))
moved = [i for i in range(len(words)) if words[i] in names]
for i in moved:
    words[i] = 8
print(len(moved), flush=True)
sys.stdin.read()
os._exit(0)
