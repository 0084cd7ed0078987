# SPDX-License-Identifier: Apache-2.0
"""The svg flame graph: as XML it adds up to what `stats` says, and in a browser it zooms and searches; no
name gets out of its place. Pictures of it go to tests/pictures in the build folder."""
import collections
import json
import pathlib
import re
import subprocess
import xml.etree.ElementTree

import pytest

import chrome
import hostile
from made import BUILD, PYEBPF, Script
from test_pprof import COST_NS, generate

SVG = "{http://www.w3.org/2000/svg}"
LEFT, DRAWN = 10, 1180
Box = collections.namedtuple("Box", "at ns row kind title x width label")
browser_only = pytest.mark.skipif(not chrome.PROGRAM, reason="no chromium (scripts/setup)")


def convert(capture, *args):
    out = pathlib.Path(capture).with_suffix(".svg")
    r = subprocess.run([PYEBPF, "convert", capture, "-o", out, "--force", *args], stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, check=False)
    assert r.returncode == 0, r.stderr
    assert r.stderr.endswith(b"next: xdg-open %s\n" % bytes(out))
    return out


def stats(capture, *args):
    return json.loads(subprocess.run([PYEBPF, "stats", capture, "--json", "-n", "0", *args], check=True,
                                     stdout=subprocess.PIPE).stdout)


def boxes(path):
    """The boxes of a file, in its order; and that its elements are no others than ours."""
    root = xml.etree.ElementTree.parse(path).getroot()
    assert root.tag == SVG + "svg"
    assert {e.tag for e in root.iter()} == {SVG + t for t in ("svg", "title", "style", "rect", "text", "g", "script")}
    assert len(list(root.iter(SVG + "script"))) == 1
    for e in root.iter():
        assert not [a for a in e.attrib if a.lower().startswith("on") or "href" in a or "src" in a], e.attrib
    found = []
    for g in root.iter(SVG + "g"):
        if not g.get("data-n"):
            continue
        rect, text = g.find(SVG + "rect"), g.find(SVG + "text")
        found.append(Box(int(g.get("data-s")), int(g.get("data-n")), int(g.get("data-r")), g.get("class").split()[1],
                         g.find(SVG + "title").text, float(rect.get("x")), float(rect.get("width")), text.text or ""))
        assert float(rect.get("y")) == 78 + 17 * found[-1].row
    return found


def name(box):
    return box.title.split("\n")[0]


def tree(found):
    """[(box, parent, children)]: the parent is the box of the row above that spans it."""
    rows = collections.defaultdict(list)
    for box in found:
        rows[box.row].append(box)
    parents = {}
    for row, level in rows.items():
        for box in level if row else ():
            above = [p for p in rows[row - 1] if p.at <= box.at and box.at + box.ns <= p.at + p.ns]
            assert len(above) == 1, box
            parents[box] = above[0]
        level.sort()
        assert all(a.at + a.ns <= b.at for a, b in zip(level, level[1:])), "they overlap in row %d" % row
    return parents


@pytest.fixture(scope="module")
def capture(tmp_path_factory):
    """Few enough distinct stacks that all are drawn."""
    path = tmp_path_factory.mktemp("svg") / "x.pyebpf"
    generate(path, 4000, COST_NS)
    return path


@pytest.mark.parametrize("raw", [(), ("--raw",)], ids=["net", "raw"])
def test_widths_add_up(capture, raw):
    found, want = boxes(convert(capture, *raw)), stats(capture, *raw)
    parents = tree(found)
    assert name(found[0]) == "all" and found[0].ns == want["self_ns"]
    for box in found:
        scale = DRAWN / found[0].ns
        assert abs(box.x - LEFT - box.at * scale) < 0.001 and abs(box.width - box.ns * scale) < 0.001
    # per function: calls, and total time with recursion counted once
    calls, total = collections.Counter(), collections.Counter()
    for box in found:
        if box.row < 3:
            continue
        calls[name(box)] += int(re.search(r", (\d+) calls?$", box.title)[1])
        above, names = parents[box], set()
        while above.row >= 3:
            names.add(name(above))
            above = parents[above]
        total[name(box)] += box.ns * (name(box) not in names)
    rows = {r["line"]: r for r in want["rows"]}
    for shown, ns in total.items():
        row = rows[int(re.search(r":(\d+)\)$", shown)[1])]
        assert (calls[shown], ns) == (row["calls"], row["total_ns"]), shown
    assert len(total) >= len([r for r in want["rows"] if r["total_ns"]]) > 30
    threads = {name(b): b.ns for b in found if b.row == 2}
    assert threads == {"%s %d" % (r["thread"], r["tid"]): r["self_ns"] for r in stats(capture, "--by", "thread", *raw)["rows"]}
    assert {name(b) for b in found if b.row == 1} == {"py thon;3 1000", "py thon;3 1001"}


def test_head_and_labels(capture):
    path = convert(capture)
    text = path.read_text("utf-8")
    assert re.search(r">pyebpf flame graph: [\d.]+ ms in Python frames in [\d.]+ ms, 4 threads<", text)
    assert re.search(r">\d+ events, 0 lost \(0 %\), 0 gaps \(0 ns\); cost of the profiler [\d.]+ us, taken out of the times<", text)
    assert "still in the times" in convert(capture, "--raw").read_text("utf-8")
    # opens anywhere: nothing is fetched
    assert re.findall(r"https?://[^\"' ]+", text) == ["http://www.w3.org/2000/svg"] * 2 + ["http://www.w3.org/1999/xhtml"]
    assert "url(" not in text and "@import" not in text
    for box in boxes(path):
        cells = len(box.label)
        assert cells * 6.7 <= max(box.width, 0) and (box.label == name(box) or not box.label or box.label.endswith(".."))
        assert box.kind == ("std" if box.row > 2 else "top")


def test_gaps_losses_and_kinds(tmp_path):
    s = Script()
    s.process(1, 77, "app")
    s.thread(1, 1, 78, "one")
    s.thread(2, 1, 79, "two")
    for number, file in enumerate(("/app/x.py", "/usr/lib/python3.12/json/a.py", "/v/site-packages/y.py", "<frozen abc>"), 1):
        s.func(number, 1, number, "f%d" % number, file)
    for number in range(1, 5):
        s.call(1, number * 1000, number)
    for number in range(1, 4):
        s.return_(1, 5000)
    s.gap(1, 6000, 10000, 7, 0)
    s.gap(2, 6000, 6500, 0, 1)
    found = boxes(convert(s.write(tmp_path / "x.pyebpf", 12000, lost=7)))
    assert [(name(b), b.ns, b.kind) for b in found if b.row < 4] == [
        ("all", 5000 + 4500, "top"), ("app 77", 9500, "top"), ("one 78", 9000, "top"), ("[lost 7]", 4000, "gap"),
        ("two 79", 500, "top"), ("[unknown]", 500, "gap"), ("f1 (/app/x.py:1)", 5000, "own")]
    assert [(name(b), b.kind) for b in found[7:]] == [("f2 (json/a.py:2)", "std"), ("f3 (y.py:3)", "pkg"),
                                                      ("f4 (<frozen abc>:4)", "std")]
    assert "7 lost (50.00 %), 2 gaps (4.50 us)" in (tmp_path / "x.svg").read_text("utf-8")


def test_what_is_too_much_is_said(tmp_path):
    """Deep recursion ends in [truncated]; of many stacks the small ones are left out, and the widths stay."""
    s = Script()
    s.process(1, 77, "app")
    s.thread(1, 1, 77, "main")
    s.func(1, 1, 1, "f", "/x.py")
    for depth in range(1000):
        s.call(1, 1000 + depth, 1)
    for depth in range(1000):
        s.return_(1, 3000 + depth)
    found = boxes(convert(s.write(tmp_path / "deep.pyebpf")))
    assert max(b.row for b in found) == 299 and name(found[-1]) == "[truncated]" and found[-1].ns == 2999 - 2 * 296
    generate(tmp_path / "many.pyebpf", 100000)
    path = convert(tmp_path / "many.pyebpf")
    found = boxes(path)
    assert 1000 < len(found) <= 12000 + 7 and path.stat().st_size < 8e6
    assert re.search(r">\d{5} frames of less than [\d.]+ .?s are left out<", path.read_text("utf-8"))
    tree(found)
    assert found[0].ns == stats(tmp_path / "many.pyebpf")["self_ns"]


def test_nothing_ran(tmp_path):
    s = Script()
    s.process(1, 77, "app")
    (only,) = boxes(convert(s.write(tmp_path / "x.pyebpf", 5000)))
    assert (name(only), only.ns) == ("all", 0)


@pytest.fixture(scope="module")
def evil(tmp_path_factory):
    s = Script()
    for p, n in enumerate(hostile.NAMES, 1):
        s.process(p, p, n)
        s.thread(p, p, p, n)
        s.func(p, p, p, n, n)
        s.call(p, 1000, p)
        s.return_(p, 2000 + p)
    path = tmp_path_factory.mktemp("evil") / "x.pyebpf"
    return s.write(path)


def test_hostile_names_stay_names(evil):
    found = boxes(convert(evil))
    assert len(found) == 1 + 3 * len(hostile.NAMES)
    shown = "\n".join(name(b) for b in found)
    assert "<script>window.pwned=1;alert(1)</script> " in shown and "]]><script>" in shown and "&lt;script&gt;" in shown
    assert r"\x1b[31mred\x1b[0m" in shown and r"\u202egnirts" in shown and r"a\x00b" in shown and r"<\xff>" in shown
    assert r"\ufffe" in shown and r"\uffff" in shown
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufffe\uffff]", shown)


# --- in a browser ---

def keep(page, what):
    folder = pathlib.Path(BUILD) / "tests/pictures"
    folder.mkdir(parents=True, exist_ok=True)
    page.picture(folder / what)
    assert (folder / what).stat().st_size > 5000


BOX = ("[...document.querySelectorAll('g.b')].find(g => g.querySelector('title').textContent.startsWith(%s)"
       " && g.style.display !== 'none')")


def place(page, start):
    """Where the first box that is shown and begins so lies: x, y, width."""
    return page.run("(r => [r.x, r.y, r.width])((%s).querySelector('rect').getBoundingClientRect())" % (
        BOX % json.dumps(start)))


def shown(page):
    return page.run("[...document.querySelectorAll('g.b')].filter(g => g.style.display !== 'none').length")


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with chrome.Browser(tmp_path_factory.mktemp("chrome")) as b:
        yield b


def app(tmp_path):
    s = Script()
    s.process(1, 77, "app")
    s.thread(1, 1, 77, "main")
    for number, n in enumerate(("main", "load_all", "parse", "write", "parse_line"), 1):
        s.func(number, 1, number * 10, n, "/app/%s.py" % "mn"[number % 2])
    for event in ((0, 1), (100, 2), (200, 3), (300, 5), (500,), (600,), (700,), (700, 4), (800, 3), (900,), (950,), (1000,)):
        s.call(1, 1000 + event[0], event[1]) if event[1:] else s.return_(1, 1000 + event[0])
    return s.write(tmp_path / "x.pyebpf")


@browser_only
def test_zoom_and_search(browser, tmp_path):
    path = convert(app(tmp_path))
    page = browser.open(path.as_uri(), "document.getElementById('search')")
    everything = shown(page)
    x, y, width = place(page, "load_all")
    whole = place(page, "all")[2]
    assert everything == 9 and abs(width - whole * 0.6) < 1
    page.move(x + 5, y + 5)
    assert page.run("document.getElementById('details').textContent") == "load_all (/app/m.py:20)   600 ns (60.00 %), self 200 ns, 1 call"
    page.click(x + 5, y + 5)
    assert abs(place(page, "load_all")[2] - whole) < 1 and abs(place(page, "main (")[2] - whole) < 1
    assert abs(place(page, "parse (")[2] - whole * 4 / 6) < 1
    # write and what it calls lie beside it: they are not shown
    assert shown(page) == everything - 2
    assert page.run("getComputedStyle(document.getElementById('reset')).display") != "none"
    keep(page, "svg-zoomed.png")
    page.press("/")
    page.write("PARSE")
    assert page.run("document.querySelectorAll('g.b.hit').length") == 3
    # parse in load_all, with parse_line in it once, and parse in write
    assert page.run("document.getElementById('found').textContent") == "3 found, 50.0 % of the time"
    assert page.run("getComputedStyle((%s).querySelector('rect')).fill" % (BOX % '"parse ("')) == "rgb(230, 123, 224)"
    page.press("Escape")
    assert shown(page) == everything and page.run("document.querySelectorAll('.hit').length") == 0
    assert abs(place(page, "load_all")[2] - whole * 0.6) < 1
    page.click(*[v + 5 for v in place(page, "parse_line")[:2]])
    assert shown(page) < everything
    x, y = page.run("(r => [r.x + 3, r.y + 5])(document.getElementById('reset').getBoundingClientRect())")
    page.click(x, y)
    assert shown(page) == everything and not page.noises


@browser_only
def test_labels_follow_the_width(browser, tmp_path):
    page = browser.open(convert(app(tmp_path)).as_uri(), "document.getElementById('search')")
    for width in (700, 2000):
        page.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        page.until("Math.abs(document.documentElement.clientWidth - %d) < 30" % width)
        page.until("Math.abs(document.querySelector('g.b rect').getBoundingClientRect().width - %d) < 40" % (width - 22))
        assert page.run("[...document.querySelectorAll('g.b')].every(g => g.querySelector('text').getBoundingClientRect().width"
                        " <= g.querySelector('rect').getBoundingClientRect().width + 1)")
    assert not page.noises


@browser_only
def test_no_script_of_a_name_runs(browser, evil):
    page = browser.open(convert(evil).as_uri(), "document.getElementById('search')")
    boxes_there = page.run("document.querySelectorAll('g.b').length")
    assert boxes_there == 1 + 3 * len(hostile.NAMES)
    for number in range(0, boxes_there, 7):
        box = "document.querySelectorAll('g.b')[%d]" % number
        page.run("(%s.dispatchEvent(new MouseEvent('mouseenter')), %s.dispatchEvent(new MouseEvent('click')))" % (box, box))
    for word in ("<script>", "constructor", "</title>", "\\"):
        page.press("Escape")
        page.press("/")
        page.write(word)
        assert page.run("document.getElementById('found').textContent") != ""
    page.press("Escape")
    page.run("document.querySelectorAll('g.b')[1].dispatchEvent(new MouseEvent('click'))")
    assert page.run("document.querySelectorAll('g.b text')[1].textContent") == name(boxes(convert(evil))[1])
    keep(page, "svg-hostile.png")
    assert page.run("window.pwned") is None and not page.noises
    assert page.run("[...document.querySelectorAll('*')].map(e => e.localName).filter(n => !['svg', 'title', 'style', 'rect', "
                    "'text', 'g', 'script', 'foreignObject', 'input'].includes(n)).length") == 0
    assert page.run("document.querySelectorAll('script').length") == 1
