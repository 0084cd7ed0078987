# SPDX-License-Identifier: Apache-2.0
"""What the lints read: the files of the project and the functions in them."""
import collections
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]

Include = collections.namedtuple("Include", "line system name")
Function = collections.namedtuple("Function", "name line lines")


def files(*patterns):
    """Paths from ROOT that are, or would be, in the repository. Without git: all below ROOT."""
    done = subprocess.run(["git", "-c", "safe.directory=%s" % ROOT, "ls-files", "-z", "--cached", "--others",
                           "--exclude-standard", "--", *patterns], cwd=ROOT, check=True,
                          stdout=subprocess.PIPE)
    names = {name for name in done.stdout.decode().split("\0") if name}
    return sorted(pathlib.PurePath(name) for name in names if (ROOT / name).is_file())


def text(path):
    return (ROOT / path).read_text("utf-8")


def includes(path):
    for number, line in enumerate(text(path).splitlines(), 1):
        m = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
        if m:
            yield Include(number, m[1] == "<", m[2])


def functions(path):
    """Functions as our formatter leaves them: the braces of a body stand in the first column."""
    lines = text(path).splitlines()
    start = 0
    for number, line in enumerate(lines):
        if line == "{":
            head = number
            while head > 0 and lines[head - 1] and not re.match(r"[}#]|.*[;/]$", lines[head - 1]):
                head -= 1
            name = re.search(r"(\w+)\(", " ".join(lines[head:number]))
            start = head, name[1] if name else lines[head]
        elif line == "}" and start:
            yield Function(start[1], start[0] + 1, number - start[0] + 1)
            start = 0


def code_lines(path):
    """Lines of a file without its data tables: what stands in an initialiser at file scope, or where
    the formatter is off."""
    count, table, off = 0, False, False
    for line in text(path).splitlines():
        off = "clang-format off" in line or off and "clang-format on" not in line
        table = table or bool(re.match(r"(static |const )+.*= \{$", line))
        count += not (table or off)
        table = table and line != "};"
    return count
