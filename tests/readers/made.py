# SPDX-License-Identifier: Apache-2.0
"""Captures as a test wants them, through make_capture."""
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.environ.get("PYEBPF_BUILD", os.path.join(HERE, "../../build"))
PYEBPF = os.path.join(BUILD, "pyebpf")


def quoted(value):
    """A field: what make_capture would not take as it is becomes \\xNN."""
    if isinstance(value, int):
        return str(value)
    raw = value if isinstance(value, bytes) else value.encode("utf-8", "surrogatepass")
    raw = raw.replace(b"\0", b"\xc0\x80")
    return "".join(chr(b) if 32 <= b < 127 and b != 0x5c else "\\x%02x" % b for b in raw) or " "


class Script:
    """Lines for make_capture, appended by calls: s.call(thread, ts_ns, func). One process and thread to begin with."""

    def __init__(self, cost=None):
        self.lines = []
        self.end_ns = 0
        if cost:
            self.line("cost", *cost)

    def line(self, *fields):
        self.lines.append("\t".join(quoted(f) for f in fields))

    def __getattr__(self, word):
        def add(*fields):
            if word in ("call", "resume", "throw", "open", "yield_", "return_", "unwind", "gap"):
                self.end_ns = max(self.end_ns, fields[1])
            self.line(word.rstrip("_"), *fields)
        return add

    def write(self, path, end_ns=None, lost=0):
        self.line("end", self.end_ns if end_ns is None else end_ns, lost)
        subprocess.run([os.path.join(BUILD, "tests/readers/make_capture"), path], check=True,
                       input=("\n".join(self.lines) + "\n").encode("ascii"))
        return path


# The account of a process begins with what its parent has: this one is large, the one between is not.
SPAWN = """import os, sys
quiet = [(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)]
_, status, usage = os.wait4(os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=quiet), 0)
print(usage.ru_maxrss)
sys.exit(status != 0)"""


def peak_kb(*args):
    done = subprocess.run([sys.executable, "-S", "-c", SPAWN, PYEBPF, *map(str, args)], stdout=subprocess.PIPE, check=True)
    return int(done.stdout)
