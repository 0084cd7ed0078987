# SPDX-License-Identifier: Apache-2.0
"""The page of one file: opened from disk in a headless Chromium without a network. Each test leaves a picture in
$PYEBPF_PICTURES, if that is set."""
import base64
import contextlib
import gzip
import json
import os
import pathlib
import re
import tempfile

import pytest

import browser
import chrome
import hostile
import speedscope
from made import Script
from test_pprof import convert, expected, generate

pytestmark = pytest.mark.skipif(not chrome.PROGRAM, reason="no chromium (scripts/setup)")
MANY = 2_200_000
FIRST, SECOND = 4_000_000, 1_000_000


@contextlib.contextmanager
def opened(path):
    with tempfile.TemporaryDirectory() as folder, chrome.Browser(folder, browser.FLAGS) as program:
        page = program.open(pathlib.Path(path).as_uri())
        page.until("document.body.innerText.includes('Sandwich')", browser.DEADLINE_S)
        yield page


def picture(page, name, folder):
    folder = pathlib.Path(os.environ.get("PYEBPF_PICTURES", folder))
    folder.mkdir(parents=True, exist_ok=True)
    page.picture(folder / (name + ".png"))
    return (folder / (name + ".png")).read_bytes()


def settled(page, name, folder):
    """A picture that stays as it is: the page draws in its own time."""
    last = b""
    for _ in range(100):
        now = picture(page, name, folder)
        if now == last:
            return now
        last = now
        page.run("new Promise(done => setTimeout(done, 100))")
    raise AssertionError("the page never comes to rest")


def profile_in(path):
    """What the page carries, as speedscope's own JSON."""
    text = path.read_text("utf-8")
    return json.loads(gzip.decompress(base64.b64decode(
        re.search(r'id="profile">([A-Za-z0-9+/=]*)</script>', text)[1])))


def table(page):
    page.press("3")
    rows = "[...document.querySelectorAll('tr')].map(r => r.innerText).filter(t => /%\\)/.test(t))"
    page.until("document.body.innerText.includes('Symbol Name') && %s.length > 0" % rows)
    rows = page.run(rows)
    return [row.splitlines()[-1].strip() for row in rows]


def converted(capture, out, *options):
    done = convert(capture, "-o", out, *options)
    assert done.returncode == 0, done.stderr
    return done.stderr.decode()


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """main calls outer twice, which calls inner."""
    folder = tmp_path_factory.mktemp("html")
    s = Script()
    s.process(1, 77, "shop")
    s.thread(1, 1, 77, "main")
    for i, name in enumerate(("<module>", "outer", "inner"), 1):
        s.func(i, 1, i * 10, name, "/srv/shop.py")
    s.call(1, 0, 1)
    for at in (FIRST, FIRST * 2):
        s.call(1, at, 2)
        s.call(1, at + 1000, 3)
        s.return_(1, at + SECOND)
        s.return_(1, at + SECOND + 500_000)
    s.return_(1, FIRST * 3)
    capture = s.write(folder / "x.pyebpf")
    said = converted(capture, folder / "x.html")
    assert "warning" not in said and "next: xdg-open" in said
    return folder / "x.html"


def test_the_page_has_no_markup_but_its_own(small):
    text = small.read_text("utf-8")
    assert "Copyright (c) 2018 Jamie Wong" in text and "Permission is hereby granted" in text
    assert text.count("<script") == text.count("</script>") == 4 and 'id="note"' not in text
    assert not re.search(r'(?:src|href)="http', text)
    assert len(text) < 600_000


def test_three_views_a_click_and_a_search(small, tmp_path):
    with opened(small) as page:
        assert page.run("document.title") == "pyebpf: shop 77 - speedscope"
        assert "shop 77 / main 77" in page.run("document.body.innerText")
        in_time = settled(page, "html-time", tmp_path)
        page.press("2")
        left_heavy = settled(page, "html-left-heavy", tmp_path)
        assert left_heavy != in_time
        page.press("1")
        settled(page, "html-time", tmp_path)
        page.move(470, 172)
        page.until("/outer[^]*50.00%|1.50ms/.test(document.body.innerText)")
        page.click(470, 172)
        page.until("/This Instance[^]*1.50ms[^]*All Instances[^]*3.00ms[^]*> <module>/.test(document.body.innerText)")
        clicked = settled(page, "html-clicked", tmp_path)
        assert clicked != in_time
        page.press("Escape")
        assert sorted(table(page)) == ["<module>", "inner", "outer"]
        page.run("[...document.querySelectorAll('tr')].find(r => r.innerText.includes('inner')).click(), 0")
        page.until("/Callers[^]*Callees/.test(document.body.innerText)")
        settled(page, "html-sandwich", tmp_path)
        page.press("1")
        before = settled(page, "html-time", tmp_path)
        page.call("Input.dispatchKeyEvent", type="keyDown", key="f", code="KeyF", windowsVirtualKeyCode=70,
                  modifiers=2)
        page.until("document.querySelector('input')")
        page.run("document.querySelector('input').focus(), 0")
        page.write("inner")
        page.until("/1\\/2|2 results|of 2|\\/2/.test(document.body.innerText)")
        assert settled(page, "html-search", tmp_path) != before
        assert not browser.threw(page)


def test_the_times_are_those_of_the_capture(tmp_path):
    capture = tmp_path / "x.pyebpf"
    generated = generate(capture, 20000)
    converted(capture, tmp_path / "x.html")
    assert speedscope.by_line(profile_in(tmp_path / "x.html")) == expected((capture, generated))


def test_too_many_events_become_sums(tmp_path):
    capture = tmp_path / "x.pyebpf"
    generated = generate(capture, MANY, 70, 3)
    said = converted(capture, tmp_path / "x.html")
    sentence = "%d events are too many for speedscope (2000000)" % generated["events"]
    assert sentence in said
    with opened(tmp_path / "x.html") as page:
        shown = page.run("document.body.innerText")
        assert sentence in shown and "aggregated: not in order of time" in shown
        assert settled(page, "html-aggregated", tmp_path)
        page.run("document.getElementById('note').click(), 0")
        assert sentence not in page.run("document.body.innerText")
    want = {line: [0, *values[1:]] for line, values in expected((capture, generated)).items()}
    sums = speedscope.by_line(profile_in(tmp_path / "x.html"))
    assert {line: [0, *values[1:]] for line, values in sums.items() if line in want} == want


def test_a_profile_of_another_tool(tmp_path):
    """Sums become slices of samples, in the page as in every other format."""
    (tmp_path / "x.folded").write_text("main;foreign_function 70\nmain;other 30\n")
    converted(tmp_path / "x.folded", tmp_path / "x.html")
    with opened(tmp_path / "x.html") as page:
        assert {"foreign_function", "other"} <= set(table(page))


def test_what_was_lost_is_said(tmp_path):
    s = Script()
    s.process(1, 7, "x")
    s.thread(1, 1, 7, "x")
    s.func(1, 1, 1, "f", "/x.py")
    s.call(1, 10, 1)
    s.return_(1, 1000)
    converted(s.write(tmp_path / "x.pyebpf", lost=3), tmp_path / "x.html")
    assert "3 of 5 events were lost" in (tmp_path / "x.html").read_text("utf-8")


def test_no_script_of_a_name_runs(tmp_path):
    s = Script()
    for p, name in enumerate(hostile.NAMES, 1):
        s.process(p, p, name)
        s.thread(p, p, p, name)
        s.func(p, p, p, name, name)
        s.call(p, 1000 * p, p)
    for p, name in enumerate(hostile.NAMES, 1):
        s.func(1000 + p, 1, p, name, name)
        s.call(1, 1_000_000 * p, 1000 + p)
        s.return_(1, 1_000_000 * (p + 1))
    converted(s.write(tmp_path / "x.pyebpf"), tmp_path / "x.html")
    text = (tmp_path / "x.html").read_text("utf-8")
    assert "pwned" not in text and text.count("<script") == 4
    with opened(tmp_path / "x.html") as page:
        # the first thread has all names; a few of the others for their own
        assert len(table(page)) > 30  # as many as fit, those with most time
        for key in "12" + "n1n2n3" * 2:
            page.press(key)
            page.run("new Promise(requestAnimationFrame)")
        assert page.run("window.pwned") is None
        # the one that is left over is the script of a file that speedscope wants to load, and may not
        noises = [noise for noise in page.noises if "dev/null" not in noise]
        assert not [noise for noise in noises if noise.startswith(("threw", "dialog"))], noises
        settled(page, "html-hostile", tmp_path)
