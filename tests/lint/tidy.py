#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""clang-tidy 14 over what a build compiles but tests: tidy.py BUILD ROOT. Exit 0 without findings, which are printed.

clang-tidy takes a second or more for a file. What it found nothing in leaves a stamp in the cache, named after all that it looked
at: its version, .clang-tidy, the commands, and the bytes of the file and of everything that it includes; not after where the
checkout lies, so that a fresh clone asks again only what has changed."""
import concurrent.futures
import contextlib
import functools
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import time

CACHE = pathlib.Path(os.environ.get("PYEBPF_CACHE") or
                     pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "pyebpf") / "tidy"
KEPT_S = 30 * 86400
GCC_ONLY = re.compile(r" -fno-tree-[a-z-]*| -Wno-stringop-overflow")  # an error to clang


def run(command, **kw):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", errors="replace", check=False, **kw)


def commands_of(build, root):
    """{file: its entries of compile_commands.json}, as clang takes them; clang-tidy guesses for other files, and is wrong.
    Tests are left to their runs under sanitizers: they leak, lie and stand in for the kernel on purpose."""
    entries = json.loads(GCC_ONLY.sub("", (build / "compile_commands.json").read_text("utf-8")))
    (build / "tidy").mkdir(exist_ok=True)
    (build / "tidy" / "compile_commands.json").write_text(json.dumps(entries, indent=1), "utf-8")
    found = {}
    for entry in entries:
        if not entry["file"].startswith("%s/tests/" % root):
            found.setdefault(entry["file"], []).append(entry)
    return found


def included(entry):
    """The files that a command reads, its own among them; None when clang does not take it."""
    words = shlex.split(entry["command"])[1:]
    at = words.index("-o")
    done = run(["clang-14", *words[:at], *words[at + 2:], "-w", "-M", "-MT", "x"], cwd=entry["directory"])
    return None if done.returncode else re.split(r"(?<!\\)\s+", done.stdout.replace("\\\n", " ").strip())[1:]


@functools.lru_cache(maxsize=None)
def digest(path):
    return hashlib.sha256(pathlib.Path(path.replace("\\ ", " ")).read_bytes()).hexdigest()


def stamp_of(always, root, entries):
    """The stamp's path, or None for what cannot be told."""
    known = hashlib.sha256(always)
    for entry in entries:
        files = included(entry)
        if not files:
            return None
        looked_at = [entry["command"]] + ["%s %s" % (file, digest(os.path.join(entry["directory"], file))) for file in files]
        known.update("\n".join(looked_at).replace(str(root), ".").encode())
    return CACHE / known.hexdigest()


def check(build, root, always, file, entries):
    """What clang-tidy says about a file; "" is nothing."""
    stamp = stamp_of(always, root, entries)
    with contextlib.suppress(OSError):
        if stamp and stamp.exists():
            stamp.touch()
            return ""
    done = run(["clang-tidy-14", "-p", build / "tidy", "--quiet", file])
    if done.returncode:
        return done.stdout or done.stderr
    with contextlib.suppress(OSError):
        if stamp and not done.stdout:
            stamp.touch()
    return done.stdout


def clean_cache():
    with contextlib.suppress(OSError):
        CACHE.mkdir(parents=True, exist_ok=True)
        for stamp in CACHE.iterdir():
            if stamp.stat().st_mtime < time.time() - KEPT_S:
                stamp.unlink()


def main(build, root):
    build = pathlib.Path(build).resolve()
    always = run(["clang-tidy-14", "--version"]).stdout.encode() + pathlib.Path(root, ".clang-tidy").read_bytes()
    clean_cache()
    found = commands_of(build, root)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        said = [text for text in pool.map(lambda one: check(build, root, always, *one), sorted(found.items())) if text]
    print("".join(said), end="")
    return bool(said)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
