# SPDX-License-Identifier: Apache-2.0
"""Servers that never answer, or answer without end: a push comes to its end at `timeout`, nothing is kept of what is too much, and no window is
lost. Those that answer wrongly are in test_push.py and test_sinks.py."""
import contextlib
import gzip
import itertools
import resource
import socket
import subprocess
import threading
import time

import pytest

import lib
import windows
from test_sinks import FAST, send

BOMB = gzip.compress(gzip.compress(bytes(1 << 28), 9), 9)
HEAD = b"HTTP/1.1 200 OK\r\n"


def slowly(data):
    for byte in itertools.chain(data, itertools.repeat(ord("."))):
        time.sleep(0.2)
        yield bytes([byte])


# what is sent as an answer, piece by piece; the connection stays open behind it
ANSWERS = {
    "nothing": lambda: [],
    "a byte now and then": lambda: slowly(HEAD + b"Content-Length: 1000\r\n\r\n"),
    "a header without end": lambda: itertools.chain([HEAD], itertools.repeat(b"X-A: " + b"a" * 65536)),
    "headers without end": lambda: itertools.chain([HEAD], (b"X-%d: a\r\n" % i * 1000 for i in itertools.count())),
    "continues without end": lambda: itertools.repeat(b"HTTP/1.1 100 Continue\r\n\r\n" * 1000),
    "ten gigabytes": lambda: itertools.chain([b"HTTP/1.1 500 No\r\nContent-Length: 10000000000\r\n\r\n"], itertools.repeat(b"a" * 65536)),
    "chunks without end": lambda: itertools.chain([HEAD + b"Transfer-Encoding: chunked\r\n\r\n"], itertools.repeat(b"4000\r\n" + b"a" * 16384 + b"\r\n")),
    "a gzip bomb": lambda: [b"HTTP/1.1 500 No\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(BOMB), BOMB],
    "no HTTP": lambda: itertools.repeat(b"\x00\xff" * 4096),
}


class Server:
    def __init__(self, answer):
        self.answer, self.asked = answer, 0
        self.socket = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.url = "http://127.0.0.1:%d" % self.socket.getsockname()[1]
        self.threads = []

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                self.threads.append(threading.Thread(target=self.give, args=(self.socket.accept()[0],), daemon=True))
                self.threads[-1].start()

    def give(self, connection):
        with connection, contextlib.suppress(OSError):
            connection.settimeout(20)
            connection.recv(65536)
            self.asked += 1
            for piece in self.answer():
                connection.sendall(piece)
            while connection.recv(65536):
                pass

    def __enter__(self):
        threading.Thread(target=self.serve, daemon=True).start()
        return self

    def __exit__(self, *args):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


@pytest.mark.parametrize("kind", ["clickhouse", "parca"])
def test_answers_without_end(kind, tmp_path):
    """All of them at once, each a sink's server that never takes anything."""
    made = windows.hour(tmp_path / "store", services=("shop",), minutes=3)
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(Server(answer)) for answer in ANSWERS.values()]
        begin = time.monotonic()
        running = []
        for number, server in enumerate(servers):
            store = tmp_path / str(number)
            windows.hour(store, services=("shop",), minutes=3)
            running.append(subprocess.Popen([lib.BINARY, "fleet", "send", "--store", store, "-d", "6s", "--sink", "%s=%s%s" % (kind, server.url, FAST)],
                                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, encoding="utf-8",
                                            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 29, 1 << 29))))
        said = [process.communicate(timeout=60)[1] for process in running]
        took = time.monotonic() - begin
        asked = [server.asked for server in servers]
    assert took < 20, took
    for name, text, times in zip(ANSWERS, said, asked):
        assert times >= 2, (name, text)
        assert "0 windows sent" in text and "%d still owed" % len(made.windows) in text, (name, text)


def test_a_server_that_is_asked(tmp_path):
    """fleet --server: an end, and a sentence."""
    for name, answer in ANSWERS.items():
        with Server(answer) as server:
            done = subprocess.run([lib.BINARY, "fleet", "top", "--server", server.url + ",timeout=1s"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  encoding="utf-8", check=False, timeout=20,
                                  preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 31, 1 << 31)))
        assert done.returncode not in (0, -11, -6) and done.stderr.startswith("pyebpf fleet: "), (name, done.stderr)


def test_one_that_hangs_keeps_no_other_one_waiting(tmp_path):
    import double  # pylint: disable=import-outside-toplevel
    made = windows.hour(tmp_path / "store", minutes=10)
    with Server(ANSWERS["nothing"]) as hanging, double.Double() as server:
        send(tmp_path / "store", "clickhouse=%s,name=bad,timeout=30s" % hanging.url, "clickhouse=%s,name=good" % server.url, duration="4s")
        assert sum("profiles" in request.path for request in server.taken) == 1 and len(made.windows) == 20
