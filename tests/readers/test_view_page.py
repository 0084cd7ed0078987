# SPDX-License-Identifier: Apache-2.0
"""`pyebpf view` in a real browser, on a real program's trace: the page shows its functions, and a click and a search
change what is seen. Pictures go where those of test_html.py go."""

import re

import pytest

import browser
import chrome
from test_html import settled, table
from viewer import traced, viewing

pytestmark = [pytest.mark.skipif(not chrome.PROGRAM, reason="no chromium (scripts/setup)"), pytest.mark.needs_root]
PROGRAM = """
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)

def outer_work():
    for _ in range(3000000):
        pass
    return sum(fib(7) for _ in range(50))

outer_work()
"""


@pytest.fixture(scope="module")
def capture(pyebpf, any_python):
    with traced(pyebpf, any_python, PROGRAM) as path:
        yield path


def test_the_page_shows_what_ran(capture, tmp_path):
    with viewing(capture, "--no-open") as server, chrome.Browser(tmp_path, browser.FLAGS) as program:
        page = program.open(server.shown)
        page.until("document.body.innerText.includes('Sandwich')", browser.DEADLINE_S)
        first = settled(page, "view-time", tmp_path)
        page.press("2")
        assert settled(page, "view-left-heavy", tmp_path) != first
        shown = table(page)
        # the table has as many rows as fit, those with most time
        assert {"fib", "outer_work"} <= set(shown)
        before = settled(page, "view-sandwich", tmp_path)
        page.run("[...document.querySelectorAll('tr')].find(r => /fib/.test(r.innerText)).click(), 0")
        page.until("/Callers[^]*Callees/.test(document.body.innerText)")
        assert settled(page, "view-clicked", tmp_path) != before
        page.call("Input.dispatchKeyEvent", type="keyDown", key="f", code="KeyF", windowsVirtualKeyCode=70,
                  modifiers=2)
        page.until("document.querySelector('input')")
        page.run("document.querySelector('input').focus(), 0")
        page.write("outer")
        rows = "[...document.querySelectorAll('tr')].map(r => r.innerText).filter(t => /%\\)/.test(t))"
        page.until("%s.length < %d" % (rows, len(shown)))
        found = page.run(rows)
        assert found and all("outer" in row for row in found)
        settled(page, "view-search", tmp_path)
        assert not browser.threw(page)
        # all of it came from there, and nothing was asked for that is not there
        assert not [noise for noise in page.noises if re.search(r"\b404\b", noise) or "Security Policy" in noise], page.noises


def test_without_the_token_a_browser_sees_nothing(capture, tmp_path):
    with viewing(capture, "--no-open") as server, chrome.Browser(tmp_path, browser.FLAGS) as program:
        page = program.open("http://127.0.0.1:%d/" % server.port)
        assert "fib" not in page.run("document.documentElement.outerHTML")
        assert server.token not in page.run("document.documentElement.outerHTML")
