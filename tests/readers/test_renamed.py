# SPDX-License-Identifier: Apache-2.0
"""--anonymize and --strip-paths in every format: nothing of what is private is left, and the program's shape is."""
import gzip
import json
import re
import subprocess

import pytest

from made import PYEBPF, Script

SECRETS = ["geheim", "Falke", "roadmap", "klaus", "acme", "rechnung", "turbine"]
LIB = "/home/klaus/.pyenv/versions/3.12.1/lib/python3.12"
FUNCS = [("<module>", "/home/klaus/acme/falke_main.py", 1), ("Falke.__init__", "/home/klaus/acme/geheim/a.py", 10),
         ("Falke.roadmap", "/home/klaus/acme/geheim/a.py", 20), ("Falke.roadmap.<locals>.<lambda>",
                                                                "/home/klaus/acme/geheim/a.py", 21),
         ("rechnung", "/home/klaus/acme/geheim/b.py", 5), ("JSONDecoder.decode", LIB + "/json/decoder.py", 332),
         ("turbine", LIB + "/site-packages/acme_turbine/core.py", 7), ("<attrs generated init acme.Falke>", "<acme>", 2),
         ("_handle_fromlist", "<frozen importlib._bootstrap>", 1053), ("Rechnung", "C:\\Users\\klaus\\b.py", 6),
         ("__roadmap__", "", 8), ("[geheim]", "", 9)]
FORMATS = ["firefox", "pprof", "speedscope", "chrometrace", "collapsed", "svg", "html", "source", "pstats", "text", "ndjson"]
MODE = {"anonymized": ["--anonymize"], "stripped": ["--strip-paths", "/home/klaus/", "--strip-paths", LIB + "/site-packages"]}


def run(*args):
    return subprocess.run([PYEBPF, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, timeout=300)


def ok(*args):
    done = run(*args)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def capture(tmp_path_factory):
    s = Script()
    s.process(1, 7, "falke-server")
    for thread, name in ((1, "falke-server"), (2, "rechnung-1"), (3, "rechnung-2"), (4, "MainThread")):
        s.thread(thread, 1, 100 + thread, name)
    for i, (name, file, line) in enumerate(FUNCS, 1):
        s.func(i, 1, line, name, file)
    now = 100
    for thread in (1, 2, 3, 4):
        for i in range(1, len(FUNCS) + 1):
            s.call(thread, now, i)
            now += 10
        for _ in FUNCS:
            s.return_(thread, now)
            now += 10 + thread
    return s.write(tmp_path_factory.mktemp("renamed") / "x.pyebpf")


def uncompressed(data):
    """With what is in base64 in a page."""
    data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    inside = [subprocess.run(["base64", "-d"], input=piece, stdout=subprocess.PIPE, check=True).stdout
              for piece in re.findall(rb"[A-Za-z0-9+/=]{300,}", data) if len(piece) % 4 == 0]
    return data + b"".join(gzip.decompress(d) if d[:2] == b"\x1f\x8b" else d for d in inside)


@pytest.mark.parametrize("name", FORMATS)
def test_nothing_private_is_left(name, capture):
    # of the viewer that is in the page nothing may count
    plain = uncompressed(ok("convert", "-q", capture, "-f", name, "-o", "-")).lower()
    data = uncompressed(ok("convert", "-q", "--anonymize", capture, "-f", name, "-o", "-")).lower()
    assert [word for word in SECRETS if word.lower().encode() in plain] == SECRETS  # the test can fail
    assert not [word for word in SECRETS if word.lower().encode() in data]
    assert b"decode" in data and b"decoder.py" in data if name != "source" else True
    stripped = uncompressed(ok("convert", "-q", *MODE["stripped"], capture, "-f", name, "-o", "-"))
    assert b"/home/klaus" not in stripped and b"acme/geheim/a.py" in stripped


@pytest.mark.parametrize("args", [["stats", "-n", "0"], ["stats", "-n", "0", "--json"], ["stats", "--by", "module"],
                                  ["stats", "--by", "thread"], ["stats", "--by", "process"], ["stats", "--by", "line"]])
def test_nor_in_tables(args, capture):
    text = ok(args[0], capture, *args[1:], "--anonymize").decode()
    assert not [word for word in SECRETS if word.lower() in text.lower()]
    assert len(text.splitlines()) == len(ok(args[0], capture, *args[1:]).splitlines())


def rows(capture, *args):
    return json.loads(ok("stats", capture, "-n", "0", "--json", *args))["rows"]


def test_the_shape_and_the_figures_stay(capture):
    def figures(row):
        return [(key, value) for key, value in row.items() if isinstance(value, (int, float))]

    plain, other = rows(capture), rows(capture, "--anonymize")
    assert sorted(map(figures, plain)) == sorted(map(figures, other)) and len(plain) == len(FUNCS)
    by_line = {row["line"]: row for row in other}
    assert len(by_line) == len(FUNCS)
    renamed = {row["function"]: by_line[row["line"]] for row in plain}
    init, roadmap = renamed["Falke.__init__"]["function"], renamed["Falke.roadmap"]["function"]
    assert re.fullmatch(r"x[a-z2-7]{8}\.__init__", init) and roadmap.split(".")[0] == init.split(".")[0]
    assert renamed["Falke.roadmap.<locals>.<lambda>"]["function"] == roadmap + ".<locals>.<lambda>"
    assert renamed["<module>"]["function"] == "<module>"
    files = [renamed[name]["file"] for name in ("Falke.__init__", "Falke.roadmap", "rechnung")]
    assert files[0] == files[1] != files[2] and files[0].rsplit("/", 1)[0] == files[2].rsplit("/", 1)[0]
    assert renamed["JSONDecoder.decode"]["file"].endswith("/lib/python3.12/json/decoder.py")
    assert re.search(r"/site-packages/x[a-z2-7]{8}/x[a-z2-7]{8}\.py$", renamed["turbine"]["file"])
    threads = {row["thread"] for row in json.loads(ok("stats", capture, "--by", "thread", "--json", "--anonymize"))["rows"]}
    numbered = sorted(name for name in threads if re.fullmatch(r"x[a-z2-7]{8}-[12]", name))
    assert len(numbered) == 2 and numbered[0][:-1] == numbered[1][:-1] and "MainThread" in threads


def test_another_run_has_other_names_and_one_run_the_same(capture, tmp_path):
    assert rows(capture, "--anonymize") != rows(capture, "--anonymize")
    ok("merge", "-q", capture, capture, "--anonymize", "-o", tmp_path / "x.folded")
    once = ok("convert", "-q", capture, "--anonymize", "-f", "collapsed", "-o", "-").decode().splitlines()
    assert len((tmp_path / "x.folded").read_text().splitlines()) == len(once)
    table = json.loads(ok("diff", capture, capture, "--anonymize", "--json", "-n", "0"))
    assert table["rows"] and all(row["before"] == row["after"] for row in table["rows"])


def test_a_profile_of_another_tool_too(tmp_path):
    (tmp_path / "x.folded").write_text("falke;geheim (/home/klaus/acme/a.py:3);rechnung (/home/klaus/acme/b.py:4) 7\n")
    text = ok("convert", "-q", tmp_path / "x.folded", "--anonymize", "-f", "collapsed", "-o", "-").decode()
    assert not [word for word in SECRETS if word.lower() in text] and text.endswith(" 70000000\n")
    text = ok("convert", "-q", tmp_path / "x.folded", "--strip-paths", "/home", "-f", "collapsed", "-o", "-").decode()
    assert "geheim (klaus/acme/a.py" in text


@pytest.mark.parametrize("folder, shown", [("/home/klaus/acme", "geheim/a.py"), ("/home/klaus/acme/", "geheim/a.py"),
                                           ("/home/klau", "/home/klaus/acme/geheim/a.py"), ("home", "/home/klaus/acme/geheim/a.py"),
                                           ("/home//", "klaus/acme/geheim/a.py")])
def test_a_folder_is_stripped_whole_or_not(folder, shown, capture):
    files = {row["file"] for row in rows(capture, "--strip-paths", folder)}
    assert shown in files


@pytest.mark.parametrize("folder", ["", "/", "//"])
def test_no_folder_to_strip(folder, capture):
    done = run("stats", capture, "--strip-paths", folder)
    assert done.returncode == 2 and b"want a folder" in done.stderr


@pytest.mark.needs_root
@pytest.mark.parametrize("verb", ["trace", "record"])
def test_while_capturing(verb, pyebpf, any_python, tmp_path):
    program = tmp_path / "geheim.py"
    program.write_text("import time\ndef rechnung():\n    end = time.monotonic() + 0.3\n"
                       "    while time.monotonic() < end: sum(range(500))\nrechnung()\n")
    pyebpf.ok(verb, "--anonymize", "-o", tmp_path / "x.folded", "--", *any_python.command, "-S", program)
    text = (tmp_path / "x.folded").read_text()
    assert ";<module> (" in text and "rechnung" not in text and "geheim" not in text
    assert not (tmp_path / "x.pyebpf").exists()
    for args in (["-o", tmp_path / "y.pyebpf"], ["--keep-capture", "-o", tmp_path / "y.folded"]):
        done = pyebpf(verb, "--anonymize", *args, "--", *any_python.command, "-S", program)
        assert done.returncode == 125 and "keeps names as they are" in done.stderr and "pyebpf convert" in done.stderr
