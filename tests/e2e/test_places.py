# SPDX-License-Identifier: Apache-2.0
"""The colours of a Firefox profile, and the module names: right for every layout that Python comes in."""
import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import zipfile

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "readers"))
import firefox_check as ff  # noqa: E402 pylint: disable=wrong-import-position

pytestmark = pytest.mark.needs_root

Place = collections.namedtuple("Place", "category package")
PROGRAM = """
import json, sys, importlib, importlib.util, string
import helper, packed.inside
import six_like.core
json.loads('{"a": [1]}')
importlib.util.find_spec("wave")
string.Template("$a").substitute(a=1)
six_like.core.in_package()
helper.in_helper()
packed.inside.in_zip()
exec(compile("def in_string(): pass\\nin_string()", "<string>", "exec"))
def in_main(): pass
in_main()
"""


@pytest.fixture
def tree(tmp_path):
    """A program that calls something from everywhere."""
    work, site = tmp_path / "project", tmp_path / "lib" / "site-packages"
    for folder in (work, site / "six_like"):
        folder.mkdir(parents=True)
    (work / "main.py").write_text(PROGRAM, "ascii")
    (work / "helper.py").write_text("def in_helper(): pass\n", "ascii")
    (site / "six_like" / "__init__.py").write_text("", "ascii")
    (site / "six_like" / "core.py").write_text("def in_package(): pass\n", "ascii")
    with zipfile.ZipFile(tmp_path / "app.zip", "w") as packed:
        packed.writestr("packed/__init__.py", "")
        packed.writestr("packed/inside.py", "def in_zip(): pass\n")
    return tmp_path


def trace(pyebpf, folder, command, path):
    """{function: Place} of a Firefox file, and the lines of collapsed stacks."""
    env = dict(os.environ, PYTHONPATH=os.pathsep.join(map(str, path)), PYTHONDONTWRITEBYTECODE="1")
    for name in ("x.pyebpf", "x.json", "x.folded"):
        (folder / name).unlink(missing_ok=True)
    pyebpf.ok("trace", "-q", "-o", folder / "x.pyebpf", "--", *command, "main.py", env=env,
              cwd=folder / "project")
    pyebpf.ok("convert", folder / "x.pyebpf", "-q", "-o", folder / "x.json")
    pyebpf.ok("convert", folder / "x.pyebpf", "-q", "-o", folder / "x.folded")
    profile = json.loads((folder / "x.json").read_text("utf-8"))
    assert ff.check(profile) == []
    shared, found = profile["shared"], {}
    for row, category in zip(shared["frameTable"]["func"], shared["frameTable"]["category"]):
        name, file, _ = ff.function_key(profile, row)
        resource = shared["funcTable"]["resource"][row]
        package = shared["stringArray"][shared["resourceTable"]["name"][resource]] if resource >= 0 else ""
        found.setdefault((name.rsplit(".", 1)[-1], file or ""), Place(
            profile["meta"]["categories"][category]["name"], package))
    return found, (folder / "x.folded").read_text("utf-8")


def place(found, name, file_end=""):
    places = {value for (function, file), value in found.items()
              if function == name and file.endswith(file_end)}
    assert len(places) == 1, (name, places)
    return places.pop()


def assert_right(found, folded):
    assert place(found, "in_main") == ("User code", "main")
    assert place(found, "in_helper") == ("User code", "helper")
    assert place(found, "in_string")[0] == "User code"
    assert place(found, "in_zip")[0] == "User code"
    assert place(found, "in_package") == ("site-packages", "six_like")
    assert place(found, "raw_decode", "json/decoder.py") == ("stdlib", "json")
    assert place(found, "substitute", "string.py" if any(file.endswith("/string.py") for _, file in found)
                 else "string/__init__.py") == ("stdlib", "string")
    for (name, file), where in found.items():
        if file.startswith("<frozen importlib") or re.search(r"/python3\.\d+t?/importlib/", file):
            assert where == ("importlib", "importlib"), name
        elif file.startswith("<frozen "):
            assert where.category == "stdlib", (name, file)
        elif where.category == "User code" and file.startswith("/"):
            assert "/project/" in file or "/app.zip/" in file, (name, file)
    # from where an import would find them
    assert re.search(r"raw_decode \(json/decoder\.py:\d+\)", folded)
    assert re.search(r"in_package \(six_like/core\.py:1\)", folded)


def test_every_interpreter(pyebpf, interpreter, tree):
    assert_right(*trace(pyebpf, tree, interpreter.command,
                        [tree / "project", tree / "lib" / "site-packages", tree / "app.zip"]))


def test_a_venv(pyebpf, interpreter, tree):
    venv = tree / "venv"
    if len(interpreter.command) > 1 or subprocess.run(
            [*interpreter.command, "-m", "venv", "--without-pip", venv], stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, check=False).returncode:
        pytest.skip("no venv of this one")
    site = next(venv.glob("lib/python3*/site-packages"))
    (tree / "lib" / "site-packages" / "six_like").rename(site / "six_like")
    assert_right(*trace(pyebpf, tree, [venv / "bin" / "python"], [tree / "app.zip"]))


def test_packages_of_debian(pyebpf, tree):
    folder = tree / "usr" / "lib" / "python3"
    folder.mkdir(parents=True)
    (tree / "lib" / "site-packages").rename(folder / "dist-packages")
    assert_right(*trace(pyebpf, tree, ["/usr/bin/python3"], [folder / "dist-packages", tree / "app.zip"]))


def test_a_users_folder_called_python3(pyebpf, tree):
    """Not the standard library."""
    (tree / "python3.11").mkdir()
    (tree / "project" / "helper.py").rename(tree / "python3.11" / "helper.py")
    found, _ = trace(pyebpf, tree, ["/usr/bin/python3"],
                     [tree / "python3.11", tree / "lib" / "site-packages", tree / "app.zip"])
    assert place(found, "in_helper") == ("User code", "helper")
