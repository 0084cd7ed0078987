# SPDX-License-Identifier: Apache-2.0
"""A running `pyebpf view`, and plain requests to it."""
import contextlib
import os
import pwd
import re
import socket
import subprocess
import tempfile

from made import PYEBPF

NOBODY = pwd.getpwnam("nobody")


@contextlib.contextmanager
def traced(pyebpf, python, program):
    """The capture of a program's run; who is not root may read it, as a viewer is not."""
    with tempfile.TemporaryDirectory(prefix="pyebpf-test-") as folder:
        os.chmod(folder, 0o755)
        script, path = os.path.join(folder, "program.py"), os.path.join(folder, "x.pyebpf")
        with open(script, "w", encoding="ascii") as f:
            f.write(program)
        pyebpf.ok("trace", "-q", "-o", path, "--", *python.command, "-S", script)
        os.chmod(path, 0o644)
        yield path


class Server:
    def __init__(self, process):
        self.process = process
        self.shown = process.stdout.readline().strip()
        url = self.shown.replace("%3A", ":").replace("%2F", "/")
        self.address, self.port, self.token = re.search(r"//([\d.]+):(\d+)/([0-9a-f]+)/", url).groups()
        self.port = int(self.port)

    def raw(self, data, more=True):
        """What comes back; without `more` it is told that nothing follows."""
        with socket.create_connection((self.address, self.port), timeout=30) as s:
            s.sendall(data)
            if not more:
                s.shutdown(socket.SHUT_WR)
            got = b""
            while True:
                piece = s.recv(65536)
                if not piece:
                    break
                got += piece
        return got

    def ask(self, path, method="GET", host=None, headers=()):
        """(status, headers, body)"""
        host = "127.0.0.1:%d" % self.port if host is None else host
        lines = ["%s %s HTTP/1.1" % (method, path), *(["Host: " + host] if host else []), *headers, "", ""]
        head, _, body = self.raw("\r\n".join(lines).encode()).partition(b"\r\n\r\n")
        status, *rows = head.decode().split("\r\n")
        return int(status.split()[1]), dict(row.lower().split(": ", 1) for row in rows), body

    def own(self, name=""):
        return "/%s/%s" % (self.token, name)


def as_nobody():
    os.setgroups([])
    os.setresgid(NOBODY.pw_gid, NOBODY.pw_gid, NOBODY.pw_gid)
    os.setresuid(NOBODY.pw_uid, NOBODY.pw_uid, NOBODY.pw_uid)


@contextlib.contextmanager
def viewing(capture, *options, env=None, user=True, command=("view",)):
    kept = {k: v for k, v in os.environ.items()
            if k not in ("SSH_CONNECTION", "DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "SUDO_UID", "SUDO_GID")}
    with subprocess.Popen([PYEBPF, *command, capture, *options], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, encoding="utf-8", env={**kept, **(env or {})},
                          preexec_fn=as_nobody if user and os.geteuid() == 0 else None) as process:
        try:
            yield Server(process)
        finally:
            process.kill()
