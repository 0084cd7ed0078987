# SPDX-License-Identifier: Apache-2.0
"""What may not be in the repository, and what every file in it has."""
import configparser
import glob
import json
import os
import pathlib
import re
import subprocess

import pytest

import source

# Programs that the tests trace have the lines that the tests count.
COPIED = ("tests/accept/", "tests/fuzz/corpus/", "tests/e2e/programs/")
BPF_LICENSE = "GPL-2.0 OR Apache-2.0"


def text_files():
    for path in source.files():
        raw = (source.ROOT / path).read_bytes()
        if b"\0" not in raw and not str(path).startswith("tests/fuzz/corpus/"):
            yield path, raw.decode("utf-8")


def test_the_environment_is_read_with_care():
    """A program with capabilities of its file does what its caller's variables say only where that does no harm: colours."""
    harmless = {"user/base/color.c", "user/tui/screen.c"}
    found = {str(path) for path, text in text_files() if str(path).startswith("user/") and re.search(r"(?<!secure_)\bgetenv\(", text)}
    assert found == harmless, found ^ harmless


def said_by(*command):
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60, check=False)
        return done.stdout.decode(errors="replace")
    except OSError:
        return ""


def pip_index():
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    for file in ("/etc/pip.conf", os.path.expanduser("~/.config/pip/pip.conf"), os.path.expanduser("~/.pip/pip.conf")):
        try:
            parser.read(file)
        except configparser.Error:
            pass
    return " ".join(value for section in parser.sections() for _, value in parser.items(section))


def registry_hosts():
    """Where this machine gets its packages: apt, npm, pip and Go. Another machine has other ones."""
    said = [said_by("npm", "config", "get", "registry"), said_by("go", "env", "GOPROXY"), pip_index()]
    for file in ["/etc/apt/sources.list", *glob.glob("/etc/apt/sources.list.d/*.*")]:
        if os.path.exists(file):
            said.append(pathlib.Path(file).read_text("utf-8"))
    hosts = set(re.findall(r"https?://(?:[^/@\s]*@)?([^/:\s,|]+)", " ".join(said)))
    return {host for host in hosts if "." in host}


def machine_paths():
    """Folders that only one machine has. Written in pieces, or this file would be the first to fail."""
    yield from ("/%s/" % name for name in ("wor" "k", "roo" "t"))
    above = str(source.ROOT.parent)
    if above.count("/") > 1:
        yield above + "/"


def forbidden():
    """What is not found behind other parts of a path: a folder of that name below the checkout is no machine's."""
    words = [*machine_paths(), *registry_hosts()]
    return re.compile(r"(?<![\w}])(%s)" % "|".join(map(re.escape, words)))


def test_no_paths_of_a_machine_and_no_registry():
    found = []
    pattern = forbidden()
    for path, text in text_files():
        for number, line in enumerate(text.splitlines(), 1):
            found += ["%s:%d: %s" % (path, number, m[0]) for m in pattern.finditer(line)]
    assert not found, "\n".join(found)


def has_license(path):
    return path.suffix in (".c", ".h", ".py", ".def", ".go") or path.parts[0] == "scripts"


@pytest.mark.parametrize("path", [p for p in source.files() if has_license(p)
                                  and not str(p).startswith(COPIED)], ids=str)
def test_a_file_names_its_license(path):
    head = "\n".join(source.text(path).splitlines()[:3])
    want = BPF_LICENSE if path.parts[0] in ("bpf", "vmlinux") else "Apache-2.0"
    assert re.search(r"SPDX-License-Identifier: %s( \*/)?$" % want, head, re.M), path


def test_presets_are_json():
    assert json.loads(source.text("CMakePresets.json"))["version"] == 3


@pytest.mark.parametrize("path", source.files("scripts/*"), ids=str)
def test_a_script_has_help(path):
    file = source.ROOT / path
    if not os.access(file, os.X_OK):
        return  # a program that a script runs
    done = subprocess.run([file, "--help"], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, encoding="utf-8",
                          timeout=60, check=False)
    assert done.returncode == 0
    assert done.stdout.startswith("usage: ")
