# SPDX-License-Identifier: Apache-2.0
"""Images of Python for pods, out of interpreters that are here, and pods that run a program in them."""
import functools
import json
import os
import pathlib
import re
import shutil
import subprocess

import node as nodes
import pythons

LIBRARIES = ("lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu")
LOADER = "lib64/ld-linux-x86-64.so.2"
LEFT_OUT = shutil.ignore_patterns("test", "tests", "idlelib", "tkinter", "ensurepip", "__pycache__", "config-3*", "gconv", "perl*", "*.a", "*.o")


def copy(source, target):
    if source.is_dir():
        shutil.copytree(source, target, ignore=LEFT_OUT, ignore_dangling_symlinks=True, dirs_exist_ok=True)
    elif source.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        target.chmod(0o755)


def needed(program):
    """The libraries of a program of this machine."""
    said = subprocess.run(["ldd", program], stdout=subprocess.PIPE, encoding="utf-8", check=True).stdout
    return [pathlib.Path(p) for p in re.findall(r"(/\S+) \(0x", said)]


def of_this_machine(name, root):
    """Debian's own: a program, its library and what it is linked to."""
    program = pathlib.Path(pythons.found()[name][-1]).resolve()
    copy(program, root / str(program)[1:])
    major, minor = pythons.version(name)
    copy(pathlib.Path("/usr/lib/python%d.%d" % (major, minor)), root / ("usr/lib/python%d.%d" % (major, minor)))
    for library in needed(program):
        copy(library.resolve(), root / (LOADER if "ld-linux" in library.name else "usr/lib/x86_64-linux-gnu/" + library.name))
    return "/" + str(program)[1:]


def of_a_tree(name, root):
    """Another Debian's, which scripts/pythons has unpacked with all that it needs."""
    program = pathlib.Path(pythons.found()[name][-1])
    tree = program.parents[2]
    major, minor = pythons.version(name)
    copy(program, root / "usr/bin" / program.name)
    copy(tree / ("usr/lib/python%d.%d" % (major, minor)), root / ("usr/lib/python%d.%d" % (major, minor)))
    for folder in LIBRARIES:
        if (tree / folder).is_dir():
            for file in (tree / folder).glob("*.so*"):
                copy(file.resolve() if file.resolve().exists() else file, root / folder / file.name)
            for file in (tree / folder).glob("ld-linux-x86-64.so.2"):
                copy(file, root / LOADER)
            for file in (tree / folder).glob("ld-2*.so"):
                copy(file, root / LOADER)
    return "/usr/bin/" + program.name


@functools.lru_cache(maxsize=None)
def choose():
    """Three interpreters of different versions."""
    known = [n for n in ("3.9-bullseye", "3.11-debian", "3.13-trixie", "3.14-sid", "3.15-sid") if n in pythons.found()]
    return known[:3]


def make(name, folder):
    """(archive, reference, program)"""
    root, reference = folder / name, "local.test/python:" + name
    make_it = of_a_tree if len(pythons.found()[name]) > 1 else of_this_machine
    program = make_it(name, root)
    (root / "tmp").mkdir(exist_ok=True)
    return nodes.make_image(reference, root, folder / (name + ".tar"), [program]), reference, program


def manifest(name, namespace, image, code, labels=()):
    return json.dumps({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace, "labels": dict(labels)},
        "spec": {"terminationGracePeriodSeconds": 1, "automountServiceAccountToken": False, "enableServiceLinks": False,
                 "containers": [{"name": "main", "image": image, "imagePullPolicy": "Never", "args": ["-u", "-c", code],
                                 "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}}}]}})
