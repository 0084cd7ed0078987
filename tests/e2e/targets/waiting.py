# SPDX-License-Identifier: Apache-2.0
"""Prints its own stacks as JSON and then waits in them. Runs on 3.6 and later.

Texts are in hex of UTF-8 with surrogates, since JSON would make one character of two of them. Function and file names are of every form that a str can have inside.
"""
import json
import sys
import threading
import time

NAMES = [
    "plain",
    "caf\u00e9",                                # latin-1
    "\u540d\u524d",                             # two bytes each
    "\U00010437x",                              # four bytes each
    "a" * 5000,
    "b" * 5000,
]
ODD = ["nul\0name", "lone\ud800\udfffname", "\ud83d\ude00", "", "<\x1b[31m>\n", "\u202egnol"]


class OwnStr(str):
    """A subclass: its characters are not inside of the object."""


def renamed(code, name):
    if not hasattr(code, "replace"):            # before 3.8
        return code
    changes = {"co_name": name, "co_filename": OwnStr(name + ".py")}
    if hasattr(code, "co_qualname"):
        changes["co_qualname"] = "Odd." + name
    return code.replace(**changes)


def chain(depth, then):
    """Every name in turn, each called by the one before."""
    call = then
    for name in NAMES:
        space = {"call": call}
        exec(compile("def %s():\n    return call()" % name, "/tmp/\u20ac " + name[:8], "exec"), space)
        call = space[name] if name in space else space[[n for n in space if n[0] == name[0]][-1]]
    for name in ODD:
        def function(call=call):
            return call()
        function.__code__ = renamed(function.__code__, name)
        call = function

    def deeper(n):
        return deeper(n - 1) if n else call()
    return deeper(depth)


def generator(then):
    yield then()


def stack_of(frame):
    stack = []
    while frame:
        code = frame.f_code
        texts = code.co_name, getattr(code, "co_qualname", code.co_name), code.co_filename
        stack.append([code.co_firstlineno] +
                     [text.encode("utf-8", "surrogatepass").hex() for text in texts])
        frame = frame.f_back
    return stack


def main():
    forever = threading.Event()
    threads = [threading.Thread(target=chain, args=(depth, forever.wait), daemon=True)
               for depth in (0, 3, 500)]
    threads.append(threading.Thread(target=lambda: list(generator(forever.wait)), daemon=True))
    for thread in threads:
        thread.start()
    time.sleep(0.3)
    stacks = {ident: stack_of(frame) for ident, frame in sys._current_frames().items()}
    stacks[threading.get_ident()] = stack_of(sys._getframe())
    print(json.dumps(stacks))
    sys.stdout.flush()
    while True:
        time.sleep(1000)


if __name__ == "__main__":
    main()
