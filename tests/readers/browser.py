# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium (Debian's chromium-headless-shell) and what drives it: the DevTools protocol over a
pair of pipes, so there is no port to find. Nothing it asks for leaves the machine."""
import contextlib
import functools
import http.server
import json
import os
import pathlib
import select
import shutil
import subprocess
import tempfile
import threading
import time

PROGRAMS = ("chromium-headless-shell", "chromium")
DEADLINE_S = 100


def program():
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


class Page:
    """One page; every call waits for the browser's answer."""

    def __init__(self, to, answers):
        self.to, self.answers = to, answers
        self.buffer, self.last_id, self.session = b"", 0, None
        self.errors = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime"):
            self.call(domain + ".enable")

    def message(self, deadline):
        while b"\0" not in self.buffer:
            ready = select.select([self.answers], [], [], max(0, deadline - time.monotonic()))[0]
            data = os.read(self.answers, 1 << 16) if ready else b""
            if not data:
                raise TimeoutError("the browser " + ("is gone" if ready else "does not answer"))
            self.buffer += data
        raw, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(raw)

    def call(self, method, **params):
        self.last_id += 1
        request = {"id": self.last_id, "method": method, "params": params}
        if self.session:
            request["sessionId"] = self.session
        data = json.dumps(request).encode() + b"\0"
        while data:
            data = data[os.write(self.to, data):]
        deadline = time.monotonic() + DEADLINE_S
        while True:
            message = self.message(deadline)
            if message.get("method") == "Runtime.exceptionThrown":
                details = message["params"]["exceptionDetails"]
                self.errors.append(details.get("exception", {}).get("description") or details["text"])
            if message.get("id") == self.last_id:
                assert "error" not in message, message["error"]
                return message["result"]

    def run(self, script):
        """The value of a JavaScript expression; of a promise, once it is there."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def open(self, url):
        self.call("Page.navigate", url=url)

    def wait(self, script):
        """Until the expression is true; its value."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            value = self.run(script)
            if value:
                return value
            assert not self.errors, self.errors
            assert time.monotonic() < deadline, "%s did not come true; the page: %s" % (
                script, self.run("document.body.innerText.slice(0, 500)"))
            time.sleep(0.05)

    def press(self, key):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, text=key if kind == "keyDown" else "",
                      code="Digit" + key if key.isdigit() else "Key" + key.upper(),
                      windowsVirtualKeyCode=ord(key.upper()))


@contextlib.contextmanager
def page():
    """A Page of a new browser, which can reach nothing but this machine."""
    to_read, to = os.pipe()
    answers, answers_write = os.pipe()

    def wire():  # the numbers that --remote-debugging-pipe wants
        kept = os.dup(answers_write)
        os.dup2(os.dup(to_read), 3)
        os.dup2(kept, 4)

    with tempfile.TemporaryDirectory() as folder:
        with subprocess.Popen(  # pylint: disable=subprocess-popen-preexec-fn
                [program(), "--headless", "--no-sandbox", "--disable-dev-shm-usage", "--no-first-run",
                 "--disable-background-networking", "--disable-component-update",
                 "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--no-proxy-server",
                 "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader",
                 "--window-size=1280,2000", "--user-data-dir=" + folder, "--remote-debugging-pipe"],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                close_fds=False, preexec_fn=wire) as browser:
            os.close(to_read)
            os.close(answers_write)
            try:
                yield Page(to, answers)
            finally:
                os.close(to)
                os.close(answers)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    browser.wait(5)
                browser.kill()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):  # pylint: disable=arguments-differ
        pass


@contextlib.contextmanager
def served(folder):
    """The address of a folder."""
    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield "http://127.0.0.1:%d" % server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def cache():
    return pathlib.Path(os.environ.get("PYEBPF_CACHE") or
                        pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache", "pyebpf"))
