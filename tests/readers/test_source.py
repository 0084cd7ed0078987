# SPDX-License-Identifier: Apache-2.0
"""The source as a page (format source) and in a terminal (stats --annotate): times beside the right lines, links that
lead somewhere, and sources that are hostile, gone, changed or not ours to read."""
import collections
import html.parser
import json
import os
import pathlib
import re
import tempfile

import pytest

import browser
import chrome
import hostile
from made import Script
from test_html import settled
from test_hostile_names import UNSEEN

PROGRAM = """\
import json

def hot(n):
    total = 0
    for i in range(n):
        total += i * i
    return total

def outer():
\tfor _ in range(150):
\t\thot(30000)

outer()
"""
OLD_S = 1_600_000_000  # before any capture of make_capture's


class Page(html.parser.HTMLParser):
    """lines: {(file, number): (self, total, text)}; functions: {id: (text of the summary, [links])}; ids; targets."""

    def __init__(self, text):
        super().__init__()
        self.lines, self.functions, self.ids, self.targets, self.tags = {}, {}, [], [], collections.Counter()
        self.files, self.inside, self.at = [], [], None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.tags[tag] += 1
        assert not [name for name in attrs if name.startswith("on")]
        if "id" in attrs:
            self.ids.append(attrs["id"])
        if "href" in attrs:
            assert attrs["href"].startswith("#")
            self.targets.append(attrs["href"][1:])
        self.inside.append(tag)
        if tag == "h2":
            self.files.append("")
        if tag == "details":
            self.functions[attrs["id"]] = ["", []]
            self.at = attrs["id"]
        if tag == "a" and "details" in self.inside and self.at:
            self.functions[self.at][1].append(attrs["href"][1:])
        if attrs.get("class", "").startswith("l "):
            self.at = (len(self.files) - 1, int(attrs["id"].split("l")[1]))
            self.lines[self.at] = [int(attrs.get("data-self", 0)), int(attrs.get("data-total", 0)), "",
                                   int(attrs["class"][-1])]

    def handle_endtag(self, tag):
        while self.inside and self.inside.pop() != tag:
            pass

    def handle_data(self, data):
        if "h2" in self.inside:
            self.files[-1] += data
        elif "summary" in self.inside:
            self.functions[self.at][0] += data
        elif "code" in self.inside:
            self.lines[self.at][2] += data


def page_of(pyebpf, capture, out, **options):
    pyebpf.ok("convert", capture, "-o", out, "--force", **options)
    text = out.read_text("utf-8")
    page = Page(text)
    assert not page.tags["script"] and "default-src 'none'; style-src 'unsafe-inline'" in text
    assert len(page.ids) == len(set(page.ids)) and set(page.targets) <= set(page.ids)
    assert not UNSEEN.search(text.replace("\n", ""))
    return page


def made(folder, sources):
    """A capture in which file i has a function f<i> at line 1 that calls one at line 4."""
    s = Script()
    s.process(1, 7, "x")
    s.thread(1, 1, 7, "x")
    for i, path in enumerate(sources):
        s.func(2 * i + 1, 1, 1, "f%d" % i, path)
        s.func(2 * i + 2, 1, 4, "g%d" % i, path)
        at = 1_000_000 * i
        s.call(1, at, 2 * i + 1)
        s.call(1, at + 1000, 2 * i + 2)
        s.return_(1, at + 21_000)
        s.return_(1, at + 500_000 - i * 1000)
    return s.write(folder / "x.pyebpf")


def old(path, text):
    path.write_text(text, "utf-8", errors="surrogateescape")
    os.utime(path, (OLD_S, OLD_S))
    return str(path)


@pytest.fixture(scope="module")
def sampled(pyebpf, any_python, tmp_path_factory):
    if os.geteuid() != 0:
        pytest.skip("needs root")
    folder = tmp_path_factory.mktemp("sampled")
    (folder / "app.py").write_text(PROGRAM)
    pyebpf.ok("record", "-q", "-r", "499", "-o", folder / "x.pyebpf", "--", *any_python.command, folder / "app.py")
    return folder


def test_samples_stand_beside_their_lines(pyebpf, sampled):
    page = page_of(pyebpf, sampled / "x.pyebpf", sampled / "x.source.html")
    name = str(sampled / "app.py")
    file = page.files.index(name)
    assert [page.lines[file, i + 1][2] for i in range(13)] == PROGRAM.expandtabs().splitlines()
    want = collections.Counter()
    rows = json.loads(pyebpf.ok("stats", sampled / "x.pyebpf", "--by", "line", "-n", "0", "--json").stdout)["rows"]
    for row in rows:
        want[row["file"], row["line"]] += row["self_ns"]
    got = {(page.files[f], line): v[0] for (f, line), v in page.lines.items() if v[0] and page.files[f] != "[no file]"}
    assert got == {key: value for key, value in want.items() if value and key[0]}
    hottest = max(page.lines, key=lambda key: page.lines[key][0])
    assert hottest in ((file, 5), (file, 6)) and page.lines[hottest][3] == 9
    assert page.lines[file, 11][0] < page.lines[file, 11][1] >= page.lines[file, 6][1]
    assert page.lines[file, 1][3] == 0


def test_functions_link_to_callers_and_callees(pyebpf, sampled):
    page = page_of(pyebpf, sampled / "x.pyebpf", sampled / "x.source.html")
    by_name = {summary.split(":")[0]: (key, links) for key, (summary, links) in page.functions.items()}
    assert by_name["outer"][0] in by_name["hot"][1] and by_name["hot"][0] in by_name["outer"][1]
    assert by_name["outer"][0] not in by_name["outer"][1]


def test_the_same_in_a_terminal(pyebpf, sampled):
    page = page_of(pyebpf, sampled / "x.pyebpf", sampled / "x.source.html")
    file = page.files.index(str(sampled / "app.py"))
    shown = pyebpf.ok("stats", sampled / "x.pyebpf", "--annotate", "app.py", "-n", "0").stdout.splitlines()
    assert shown[0] == str(sampled / "app.py") and shown[1].split() == ["self", "total", "line"]
    assert [line[28:] for line in shown[2:]] == PROGRAM.expandtabs().splitlines()
    assert [bool(line[:9].strip()) for line in shown[2:]] == [page.lines[file, i + 1][0] > 0 for i in range(13)]
    assert [bool(line[9:19].strip()) for line in shown[2:]] == [page.lines[file, i + 1][1] > 0 for i in range(13)]


def test_a_trace_has_its_times_at_first_lines(pyebpf, tmp_path):
    source = old(tmp_path / "x.py", "a\nb\nc\nd\ne\n")
    page = page_of(pyebpf, made(tmp_path, [source]), tmp_path / "x.source.html")
    assert page.lines[0, 1][:3] == [480_000, 500_000, "a"] and page.lines[0, 4][:3] == [20_000, 20_000, "d"]
    assert page.lines[0, 2][:3] == [0, 0, "b"]
    assert page.functions["F0"] == ["f0: 1 call, self 480 us, total 500 us", ["F1"]]
    assert page.functions["F1"] == ["g0: 1 call, self 20.0 us, total 20.0 us", ["F0"]]
    shown = pyebpf.ok("stats", tmp_path / "x.pyebpf", "--annotate", source).stdout
    assert "does not know which line" in shown and re.search(r"^ +480 us +500 us +1  a$", shown, re.M)


def test_files_that_cannot_be_shown(pyebpf, tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("canary-of-a-secret\n")
    (tmp_path / "link.py").symlink_to(secret)
    (tmp_path / "folder.py").mkdir()
    os.mkfifo(tmp_path / "fifo.py")
    (tmp_path / "binary.py").write_bytes(b"a\0b")
    with open(tmp_path / "huge.py", "wb") as f:
        f.truncate(1 << 40)
    names = ["gone.py", "link.py", "folder.py", "fifo.py", "binary.py", "huge.py", "secret.txt"]
    paths = [str(tmp_path / name) for name in names] + ["/dev/zero", "/etc/passwd", "<string>", "<frozen os>"]
    page = page_of(pyebpf, made(tmp_path, paths), tmp_path / "x.source.html")
    text = (tmp_path / "x.source.html").read_text("utf-8")
    assert "canary" not in text and "root:" not in text
    why = re.findall(r"<h2[^>]*>([^<]*)</h2>\n<p class=\"why\">No source: ([^<]*)\.</p>", text)
    assert dict(why) == {html.escape(p, quote=True): reason for p, reason in zip(paths, [
        "it is not on this machine", *["it is not called .py, and its first line does not name Python"],
        "it is no file", "it is no file", "it is no text", "it is larger than 4 MB",
        "it is not called .py, and its first line does not name Python", "it is no file",
        "it is not called .py, and its first line does not name Python", "it is no file", "it is no file"])}
    # their functions and times are there all the same
    assert len(page.functions) == 2 * len(paths) and sum(v[0] for v in page.lines.values()) > 0


def test_a_script_without_a_suffix(pyebpf, tmp_path):
    source = old(tmp_path / "tool", "#!/usr/bin/env python3\nb\nc\nd\n")
    page = page_of(pyebpf, made(tmp_path, [source]), tmp_path / "x.source.html")
    assert page.lines[0, 1][2] == "#!/usr/bin/env python3"


def test_a_file_that_changed(pyebpf, tmp_path):
    source = tmp_path / "x.py"
    source.write_text("a\nb\n")
    capture = made(tmp_path, [str(source)])
    page = page_of(pyebpf, capture, tmp_path / "x.source.html")
    text = (tmp_path / "x.source.html").read_text("utf-8")
    assert "newer than the capture" in text and "The file ends before these" in text
    assert page.lines[0, 4][:3] == [20_000, 20_000, ""] and "F1" in page.functions
    shown = pyebpf.ok("stats", capture, "--annotate", "x.py").stdout
    assert "newer than the capture" in shown and "ends before these lines" in shown
    os.utime(source, (OLD_S, OLD_S))
    page_of(pyebpf, capture, tmp_path / "x.source.html")
    assert "newer" not in (tmp_path / "x.source.html").read_text("utf-8")


@pytest.mark.needs_root
def test_what_the_user_of_sudo_may_not_read(pyebpf, public_tmp):
    source = public_tmp / "x.py"
    old(source, "canary\nb\nc\nd\n")
    source.chmod(0o600)
    capture = made(public_tmp, [str(source)])
    env = {**os.environ, "SUDO_UID": "65534", "SUDO_GID": "65534"}
    page_of(pyebpf, capture, public_tmp / "x.source.html", env=env)
    text = (public_tmp / "x.source.html").read_text("utf-8")
    assert "canary" not in text and "it may not be read" in text


def test_a_library_is_shown_around_its_lines(pyebpf, tmp_path):
    folder = tmp_path / "lib/python3.11"
    folder.mkdir(parents=True)
    source = old(folder / "x.py", "".join("line %d\n" % i for i in range(1, 101)))
    page = page_of(pyebpf, made(tmp_path, [source]), tmp_path / "x.source.html")
    assert sorted(page.lines) == [(0, i) for i in range(1, 9)]
    assert "92 lines without time" in (tmp_path / "x.source.html").read_text("utf-8")


def test_which_file_is_meant(pyebpf, tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    paths = [old(tmp_path / name, "x\n") for name in ("a/x.py", "b/x.py", "ax.py")]
    capture = made(tmp_path, paths)
    for name, path in (("a/x.py", paths[0]), (paths[1], paths[1]), ("ax.py", paths[2])):
        assert pyebpf.ok("stats", capture, "--annotate", name).stdout.startswith(path + "\n")
    for name, what in (("x.py", "2 files are called x.py"), ("y.py", "no file in the capture is called y.py"),
                       ("", "no file")):
        done = pyebpf("stats", capture, "--annotate", name)
        assert done.returncode == 2 and what in done.stderr and done.stdout == ""


@pytest.mark.skipif(not chrome.PROGRAM, reason="no chromium (scripts/setup)")
def test_no_script_of_a_name_or_a_source_runs(pyebpf, tmp_path):
    names = [n.encode("utf-8", "surrogatepass") if isinstance(n, str) else n for n in hostile.NAMES]
    raw = b"\n".join(n.replace(b"\0", b"").replace(b"\n", b"") for n in names)
    evil = tmp_path / "</title><script>window.pwned=1<".replace("/", "_")
    evil.mkdir()
    evil = evil / "x.py"
    evil.write_bytes(raw)
    s = Script()
    s.process(1, 7, "x")
    s.thread(1, 1, 7, "x")
    for i, name in enumerate(hostile.NAMES, 1):
        s.func(2 * i, 1, i, name, str(evil))
        s.func(2 * i + 1, 1, i, name, name)
        for f in (2 * i, 2 * i + 1):
            s.call(1, 1000 * f, f)
            s.return_(1, 1000 * f + 500)
    page = page_of(pyebpf, s.write(tmp_path / "x.pyebpf"), tmp_path / "x.source.html")
    assert page.tags["h2"] > 50 and page.tags["iframe"] == page.tags["img"] == page.tags["svg"] == 0
    shown = pyebpf.ok("stats", tmp_path / "x.pyebpf", "--annotate", evil, "-n", "0").stdout
    assert not UNSEEN.search(shown.replace("\n", "")) and "<script>" in shown
    with tempfile.TemporaryDirectory() as folder, chrome.Browser(folder, browser.FLAGS) as program:
        opened = program.open((tmp_path / "x.source.html").as_uri())
        assert opened.run("document.scripts.length") == 0 and opened.run("window.pwned") is None
        opened.run("document.querySelectorAll('details').forEach(d => { d.open = true })")
        opened.run("document.querySelectorAll('*').forEach(e => e.dispatchEvent(new Event('mouseover')))")
        assert opened.run("window.pwned") is None and not opened.noises, opened.noises


@pytest.mark.skipif(not chrome.PROGRAM, reason="no chromium (scripts/setup)")
def test_in_a_browser_a_link_leads_to_the_line(pyebpf, sampled, tmp_path):
    page_of(pyebpf, sampled / "x.pyebpf", sampled / "x.source.html")
    with tempfile.TemporaryDirectory() as folder, chrome.Browser(folder, browser.FLAGS) as program:
        page = program.open(pathlib.Path(sampled / "x.source.html").as_uri())
        settled(page, "source-top", tmp_path)
        page.run("[...document.querySelectorAll('td a')].find(a => a.textContent.endsWith('/app.py')).click(), 0")
        page.until("scrollY > 0 && /^#f\\d+$/.test(location.hash)")
        page.run("[...document.querySelectorAll('details')].find(d => /^hot:/.test(d.textContent)).open = true")
        settled(page, "source-lines", tmp_path)
        colour = "getComputedStyle([...document.querySelectorAll('.l')].find(l => l.textContent.includes('%s')))" \
            ".backgroundColor"
        assert page.run(colour % "total += i") != page.run(colour % "import json") == "rgba(0, 0, 0, 0)"
        page.run("[...document.querySelectorAll('details')].find(d => /^hot:/.test(d.textContent))"
                 ".querySelector('li a').click(), 0")
        page.until("/^outer:/.test(document.querySelector(location.hash).textContent)")
        assert not page.noises
