# SPDX-License-Identifier: Apache-2.0
"""Viewers that are web pages: their files from the cache, served on this machine alone to the headless
Chromium of chrome.py."""
import contextlib
import functools
import http.server
import os
import pathlib
import tempfile
import threading

import chrome

# a graphics card in software: viewers draw with it
FLAGS = ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--no-proxy-server", "--use-gl=angle",
         "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
DEADLINE_S = 100


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):  # pylint: disable=arguments-differ
        pass


@contextlib.contextmanager
def served(folder, handler=Quiet):
    """The address of a folder."""
    handler = functools.partial(handler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield "http://127.0.0.1:%d" % server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


@contextlib.contextmanager
def page(site, path, ready):
    """A page of the folder @site in a new browser, once the expression @ready is true there."""
    with tempfile.TemporaryDirectory() as folder, served(site) as address, chrome.Browser(folder, FLAGS) as browser:
        opened = browser.open(address + path)
        opened.until(ready, DEADLINE_S)
        yield opened


def threw(opened):
    return [noise for noise in opened.noises if noise.startswith("threw")]


def cache():
    return pathlib.Path(os.environ.get("PYEBPF_CACHE") or
                        pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache", "pyebpf"))


def missing(viewer):
    """What keeps a viewer from running here, or None."""
    if not chrome.PROGRAM:
        return "no chromium (scripts/setup)"
    return None if viewer.exists() else "no %s in the cache (scripts/setup)" % viewer
