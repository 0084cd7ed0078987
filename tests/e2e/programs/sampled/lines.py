# SPDX-License-Identifier: Apache-2.0
"""The line tables of some modules of the library, and what this interpreter makes of them (input of lines.c)."""
import dis
import os
import sys
import types
import warnings

MINOR = sys.version_info[1]


def answers(code):
    if MINOR >= 10:
        for start, end, line in code.co_lines():
            for offset in range(start, end, 2):
                yield offset // 2, line or 0
    else:
        for offset, line in dis.findlinestarts(code):
            yield offset, line


def show(code):
    table = code.co_linetable if MINOR >= 10 else code.co_lnotab
    out = [str(MINOR), str(code.co_firstlineno), "".join("%02x" % b for b in bytearray(table)) or "-"]
    for at, line in answers(code):
        out += [str(at), str(line)]
    print(" ".join(out))
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            show(const)


warnings.simplefilter("ignore")
library = os.path.dirname(os.__file__)
for name in ("argparse.py", "ast.py", "typing.py", "datetime.py", "tarfile.py", "inspect.py"):
    with open(os.path.join(library, name), encoding="utf-8") as f:
        show(compile(f.read(), name, "exec"))
