# SPDX-License-Identifier: Apache-2.0
"""A server that stands in for one of a sink's: it takes down what it is sent and answers as a test says."""
import contextlib
import gzip
import http.server
import socket
import ssl
import struct
import threading
import time

RESET, SILENT, SLOW = "reset", "silent", "slow"


class Request:
    def __init__(self, handler, body):
        self.path, self.headers, self.at = handler.path, dict(handler.headers), time.monotonic()
        self.body = gzip.decompress(body) if handler.headers.get("Content-Encoding") == "gzip" else body


class Double:
    """answers: a function of the Request (or None: 200) that gives a status, (status, headers, body), or what is to
    happen in place of an answer. taken: requests that were answered with 2xx."""

    def __init__(self, answers=None, context=None):
        self.answers = answers or (lambda request: 200)
        self.requests, self.taken, self.lock = [], [], threading.Lock()
        double = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                request = Request(self, body)
                with double.lock:
                    double.requests.append(request)
                    answer = double.answers(request)
                double.give(self, request, answer)

            def log_message(self, *args):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 64

            def handle_error(self, request, client_address):
                pass  # the other side has gone

            def shutdown_request(self, request):
                with contextlib.suppress(OSError):
                    super().shutdown_request(request)

        self.server = Server(("127.0.0.1", 0), Handler)
        if context:
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.port = self.server.server_address[1]
        self.url = "%s://localhost:%d" % ("https" if context else "http", self.port)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)

    def give(self, handler, request, answer):
        if answer == RESET:
            handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            handler.close_connection = True
            return
        if answer == SILENT:
            handler.close_connection = True
            time.sleep(3)
            return
        status, headers, body = (answer, {}, b"") if isinstance(answer, int) else answer if isinstance(answer, tuple) else (200, {}, b"")
        if 200 <= status < 300 and answer != SLOW:
            with self.lock:
                self.taken.append(request)
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(body) + (100 if answer == SLOW else 0)))
        handler.end_headers()
        if answer == SLOW:
            with contextlib.suppress(OSError):
                for _ in range(30):
                    handler.wfile.write(b".")
                    handler.wfile.flush()
                    time.sleep(0.1)
            handler.close_connection = True
            return
        handler.wfile.write(body)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *args):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join(10)


def server_context(folder, cert, key, client_ca=None):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / cert, folder / key)
    if client_ca:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(folder / client_ca)
    return context


def sequence(*answers, then=200):
    """One answer after the other, then always the same."""
    rest = list(answers)
    return lambda request: rest.pop(0) if rest else then
