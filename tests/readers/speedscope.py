# SPDX-License-Identifier: Apache-2.0
"""speedscope as a foreign reader: its own page, in a headless Chromium, imports a file and is then asked
to export what it understood. Also what such a profile adds up to."""
import collections
import json
import shutil
import tempfile

import browser

PAGE = browser.cache() / "bin" / "speedscope" / "dist" / "release"


MISSING = browser.missing(PAGE)


class Imported:
    """profiles: as speedscope exports them again; table: texts of the rows of the sandwich view."""

    def __init__(self, group, title, table):
        self.group, self.title, self.table = group, title, table
        self.profiles = group["profiles"]


def imported(path):
    with tempfile.TemporaryDirectory() as site:
        shutil.copytree(PAGE, site, dirs_exist_ok=True)
        shutil.copy(path, site + "/profile")
        with browser.page(site, "/#profileURL=/profile",
                          "document.body && document.body.innerText.includes('Sandwich')") as page:
            page.press("3")
            page.until("document.body.innerText.includes('Symbol Name')")
            # only the rows in sight are there, and what is in sight is known a few pictures later
            page.until("(() => { const seen = window.rows; window.rows = document.querySelectorAll('tr').length;"
                       " return window.rows > 1 && window.rows === seen })()")
            table = page.run("[...document.querySelectorAll('tr')].map(r => r.innerText)"
                             ".filter(t => /%\\)/.test(t))")
            title = page.run("document.title")
            page.run("URL.createObjectURL = blob => { window.saved = blob; return 'blob:none' }, 0")
            page.run("[...document.querySelectorAll('div')].filter(e => /Export$/.test(e.textContent))"
                     ".at(-1).click(), 0")
            page.until("window.saved")
            text = page.run("saved.text()")
            assert not browser.threw(page)
    return Imported(json.loads(text), title, table)


def evented(profile):
    """[(frame, begin, end, depth)] of each slice; checks that they nest and that times never go back."""
    open_, slices, clock = [], [], profile["startValue"]
    for event in profile["events"]:
        assert event["at"] >= clock
        clock = event["at"]
        if event["type"] == "O":
            open_.append((event["frame"], clock))
        else:
            frame, begin = open_.pop()
            assert event["frame"] == frame
            slices.append((frame, begin, clock, len(open_)))
    assert not open_ and clock <= profile["endValue"]
    return slices


def sums(group):
    """{frame: [slices, self, total]}, recursion counted once; of sampled profiles without a count."""
    got = collections.defaultdict(lambda: [0, 0, 0])
    for profile in group["profiles"]:
        assert profile["unit"] == "nanoseconds"
        if profile["type"] == "sampled":
            assert len(profile["samples"]) == len(profile["weights"])
            for stack, weight in zip(profile["samples"], profile["weights"]):
                got[stack[-1]][1] += weight
                for frame in set(stack):
                    got[frame][2] += weight
            continue
        stack, clock = [], 0
        for event in profile["events"]:
            if stack:
                got[stack[-1]][1] += event["at"] - clock
                for frame in set(stack):
                    got[frame][2] += event["at"] - clock
            clock = event["at"]
            if event["type"] == "O":
                stack.append(event["frame"])
                got[event["frame"]][0] += 1
            else:
                stack.pop()
    return got


def by_line(group):
    """{first line: sums}; in a generated capture the line tells the function. speedscope exports a frame
    once for each profile that has it."""
    frames, got = group["shared"]["frames"], collections.defaultdict(lambda: [0, 0, 0])
    for frame, values in sums(group).items():
        into = got[frames[frame].get("line", frames[frame]["name"])]
        into[:] = map(sum, zip(into, values))
    return got
