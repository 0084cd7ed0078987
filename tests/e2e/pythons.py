# SPDX-License-Identifier: Apache-2.0
"""The interpreters that the tests run on, and processes that run in them."""
import contextlib
import functools
import os
import pathlib
import re
import shlex
import signal
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("PYEBPF_BUILD", ROOT / "build"))
TARGETS = pathlib.Path(__file__).resolve().parent / "targets"


@functools.lru_cache(maxsize=None)
def found():
    """{name: command line as a list}, what scripts/pythons has gathered."""
    listing = subprocess.run([ROOT / "scripts" / "pythons", "--list"], stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL, encoding="utf-8", check=True).stdout
    rows = [line.split("\t") for line in listing.splitlines()]
    return {name: shlex.split(command) for name, command in rows}


def names():
    return sorted(found())


def version(name):
    """(3, 12) of a name as scripts/pythons gives it: "pyenv-3.12.1", "3.13t"."""
    major, minor = re.search(r"(\d+)\.(\d+)", name).groups()
    return int(major), int(minor)


def full_version(command):
    """"3.12.1", from the interpreter itself."""
    code = "import sys; print('%d.%d.%d' % sys.version_info[:3])"
    return subprocess.run(command + ["-c", code], stdout=subprocess.PIPE, encoding="utf-8",
                          check=True).stdout.strip()


@contextlib.contextmanager
def running(command, **options):
    """A started process that has printed a line; gives it and the line. Killed at the end."""
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          start_new_session=True, **options) as process:
        try:
            yield process, process.stdout.readline()
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
