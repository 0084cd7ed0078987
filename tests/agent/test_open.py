# SPDX-License-Identifier: Apache-2.0
"""`pyebpf fleet open`: the server of `view` with the sum of windows, and what a real browser shows of it."""
import gzip
import json
import os
import re
import signal
import subprocess
import sys

import pytest

import lib
import windows
from protobuf import Pprof

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "readers"))
import browser  # noqa: E402 pylint: disable=wrong-import-position
import chrome  # noqa: E402 pylint: disable=wrong-import-position
from test_html import settled, table  # noqa: E402 pylint: disable=wrong-import-position
from viewer import NOBODY, viewing  # noqa: E402 pylint: disable=wrong-import-position


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A store that is its owner's alone, as the agent makes it."""
    folder = tmp_path_factory.mktemp("open") / "store"
    made = windows.hour(folder, minutes=8)
    folder.chmod(0o700)
    return folder, made


def opened(store, *options, **how):
    """By root, for the user who typed sudo; or by who runs this."""
    env = {"SUDO_UID": str(NOBODY.pw_uid), "SUDO_GID": str(NOBODY.pw_gid)} if os.geteuid() == 0 else None
    return viewing(store, "--no-open", *options, env=env, user=False, command=("fleet", "open", "--store"), **how)


def test_it_serves_the_sum(filled):
    store, made = filled
    with opened(store, "--service", "shop") as server:
        profile = gzip.decompress(server.ask(server.own("profile"))[2])
        status, _, page = server.ask(server.own())
        assert status == 200 and b"script.js" in page
        status = dict(line.split(":\t", 1) for line in
                      open("/proc/%d/status" % server.process.pid, encoding="ascii").read().splitlines())
        assert "0" not in status["Uid"].split() and int(status["CapEff"], 16) == 0
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(30) == 0
    wanted = made.sums["shop"].values()
    assert Pprof(profile).totals() == {kind: sum(v[i] for v in wanted) for i, kind in enumerate(windows.TYPES)}


def test_for_the_firefox_profiler(filled):
    with opened(filled[0], "--service", "cart", "--firefox") as server:
        profile = json.loads(gzip.decompress(server.ask(server.own("profile.json.gz"))[2]))
    assert any(thread["samples"] for thread in profile["threads"]) and server.shown.startswith("https://profiler.firefox.com/from-url/")


def test_what_it_refuses(filled, tmp_path):
    def refused(*args, **env):
        done = subprocess.run([lib.BINARY, "fleet", "open", "--no-open", "--store", filled[0], *args], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, encoding="utf-8", check=False, timeout=60, env={**os.environ, **env})
        assert not done.stdout
        return done.returncode, done.stderr
    user = {"SUDO_UID": str(NOBODY.pw_uid), "SUDO_GID": str(NOBODY.pw_gid)}
    assert refused("--service", "nobody", **user)[0] == 4
    code, said = refused("-o", tmp_path / "x.html", **user)
    assert code == 2 and "-o is for flame" in said
    code, said = refused("--port", "70000", **user)
    assert code == 2 and "--port" in said
    if os.geteuid() == 0:
        code, said = refused(SUDO_UID="", SUDO_GID="")
        assert code == 3 and "does not run as root" in said and "fleet flame -o FILE.html" in said


@pytest.mark.skipif(not chrome.PROGRAM, reason="no chromium (scripts/setup)")
def test_the_page_shows_the_sum(filled, tmp_path):
    store, made = filled
    names = {stack[-1][0] for stack in made.sums["shop"]}
    with opened(store, "--service", "shop") as server, chrome.Browser(tmp_path, browser.FLAGS) as program:
        page = program.open(server.shown)
        page.until("document.body.innerText.includes('Sandwich')", browser.DEADLINE_S)
        first = settled(page, "fleet-open-time", tmp_path)
        page.press("2")
        assert settled(page, "fleet-open-left-heavy", tmp_path) != first
        shown = table(page)
        assert {re.sub(r" \(.*", "", row) for row in shown} & names, (shown, names)
        assert not browser.threw(page)
        assert not [noise for noise in page.noises if re.search(r"\b404\b", noise) or "Security Policy" in noise], page.noises
