# SPDX-License-Identifier: Apache-2.0
"""The Firefox Profiler's own front-end, where somebody has built one: $PYEBPF_FIREFOX_PROFILER is the folder with its
index.html. It is handed a profile by `pyebpf view --firefox-url`, as an instance in an organisation would be."""
import contextlib
import os
import pathlib
import tempfile

import browser
import chrome
from viewer import viewing

FOLDER = pathlib.Path(os.environ.get("PYEBPF_FIREFOX_PROFILER", "/nowhere"))


def missing():
    """What keeps it from running here, or None."""
    if not (FOLDER / "index.html").exists():
        return "no front-end of the Firefox Profiler ($PYEBPF_FIREFOX_PROFILER)"
    return None if chrome.PROGRAM else "no chromium (scripts/setup)"


class Handler(browser.Quiet):
    """Addresses within the application are answered with its page."""

    def translate_path(self, path):
        found = super().translate_path(path)
        return found if os.path.isfile(found) else str(FOLDER / "index.html")


@contextlib.contextmanager
def shown(capture, width=1240, height=800):
    """(the page, once it has loaded the profile of a capture; the server of the profile)"""
    with tempfile.TemporaryDirectory() as folder, browser.served(FOLDER, Handler) as site, \
            viewing(capture, "--no-open", "--firefox-url", site) as server, \
            chrome.Browser(folder, browser.FLAGS) as program:
        page = program.open(server.shown)
        page.until("typeof selectors !== 'undefined' && selectors.app.getView(getState()).phase === 'DATA_LOADED'",
                   browser.DEADLINE_S)
        page.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        yield page, server


def tab(page, name):
    page.run("dispatch(actions.changeSelectedTab('%s')), 0" % name)
    page.until("document.querySelector('[role=tabpanel]')")


def choose_thread(page, name):
    page.run("dispatch(actions.changeSelectedThreads(new Set([profile.threads.findIndex(t => t.name === '%s')]))), 0"
             % name)
