# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium, driven through its debugging pipe with the standard library alone.

    with chrome.Browser(tmp_path) as browser:
        page = browser.open("file:///x.svg")
        page.run("document.title"); page.click(10, 20); page.picture("x.png")

It has no network: every name resolves to nothing. What a page said on its console, asked in a dialog or
threw is in page.noises."""
import base64
import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import time

PROGRAM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = ["--headless", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--disable-dev-shm-usage",
         "--disable-background-networking", "--disable-component-update", "--disable-extensions",
         "--host-resolver-rules=MAP * ~NOTFOUND", "--remote-debugging-pipe", "--window-size=1240,900"]
TIMEOUT_S = 60


class Page:
    def __init__(self, browser, session):
        self.browser = browser
        self.session = session
        self.noises = []

    def call(self, method, **params):
        return self.browser.call(method, self.session, **params)

    def run(self, expression):
        """The value of a JavaScript expression."""
        got = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in got:
            raise AssertionError(got["exceptionDetails"])
        return got["result"].get("value")

    def until(self, expression, seconds=20):
        """Waits until it is true."""
        end = time.monotonic() + seconds
        while not self.run("!!(%s)" % expression):
            assert time.monotonic() < end, "waited in vain for " + expression
            time.sleep(0.05)

    def click(self, x, y):
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def move(self, x, y):
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def write(self, text):
        """Into what has the focus."""
        self.call("Input.insertText", text=text)

    def press(self, key):
        text = {"text": key} if len(key) == 1 else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def picture(self, path):
        """PNG of what is seen."""
        data = self.call("Page.captureScreenshot", format="png")["data"]
        with open(path, "wb") as f:
            f.write(base64.b64decode(data))

    def hear(self, method, params):
        if method == "Runtime.consoleAPICalled":
            self.noises.append("console: " + " ".join(str(a.get("value", a)) for a in params["args"]))
        elif method == "Runtime.exceptionThrown":
            self.noises.append("threw: " + json.dumps(params["exceptionDetails"]))
        elif method == "Log.entryAdded":
            self.noises.append("log: " + params["entry"]["text"])
        elif method == "Page.javascriptDialogOpening":
            self.noises.append("dialog: " + params["message"])
            self.browser.send("Page.handleJavaScriptDialog", self.session, accept=False)


class Browser:
    def __init__(self, folder, flags=()):
        """flags: more of them, or other values for those above"""
        self.folder = str(folder)
        self.flags = list(flags)
        self.process = None
        self.pages = {}
        self.number = 0
        self.answers = {}
        self.rest = b""

    def __enter__(self):
        to_child, self.to = os.pipe()
        self.source, from_child = os.pipe()
        flags = FLAGS + self.flags + ["--no-sandbox"] * (os.geteuid() == 0)
        # the shell puts the pipe where Chromium expects it: reading from 3, writing to 4
        command = ["sh", "-c", 'exec "$@" 3<&0 4>&1 </dev/null >&2', "sh", PROGRAM, *flags,
                   "--user-data-dir=" + os.path.join(self.folder, "chrome"), "about:blank"]
        with open(os.path.join(self.folder, "chrome.log"), "wb") as log:
            self.process = subprocess.Popen(command, stdin=to_child, stdout=from_child, stderr=log,
                                            start_new_session=True, env=dict(os.environ, HOME=self.folder))
        os.close(to_child)
        os.close(from_child)
        return self

    def __exit__(self, *_):
        with contextlib.suppress(Exception):
            self.send("Browser.close", None)
            self.process.wait(10)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(10)
        os.close(self.to)
        os.close(self.source)
        shutil.rmtree(os.path.join(self.folder, "chrome"), ignore_errors=True)

    def send(self, method, session, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        return self.number

    def receive(self, seconds):
        while b"\0" not in self.rest:
            ready, _, _ = select.select([self.source], [], [], seconds)
            assert ready, "Chromium says nothing"
            got = os.read(self.source, 1 << 20)
            assert got, "Chromium ended"
            self.rest += got
        raw, self.rest = self.rest.split(b"\0", 1)
        message = json.loads(raw)
        if "id" in message:
            self.answers[message["id"]] = message
        elif message.get("sessionId") in self.pages:
            self.pages[message["sessionId"]].hear(message["method"], message["params"])

    def call(self, method, session=None, **params):
        number = self.send(method, session, **params)
        while number not in self.answers:
            self.receive(TIMEOUT_S)
        answer = self.answers.pop(number)
        assert "error" not in answer, (method, answer["error"])
        return answer["result"]

    def open(self, url, ready="document.readyState === 'complete'"):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = self.pages[session] = Page(self, session)
        for domain in ("Page", "Runtime", "Log"):
            page.call(domain + ".enable")
        page.call("Page.navigate", url=url)
        page.until("location.href !== 'about:blank' && " + ready)
        return page
