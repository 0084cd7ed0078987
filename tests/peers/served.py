# SPDX-License-Identifier: Apache-2.0
"""Peers as running servers, on loopback."""
import contextlib
import os
import socket
import subprocess

import lib


def answers(port):
    with contextlib.suppress(OSError):
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
        return True
    return False


@contextlib.contextmanager
def running(command, port, folder, **env):
    """The process, once it listens on the port."""
    log = folder / "server.log"
    with log.open("wb") as out:
        process = subprocess.Popen(list(map(str, command)), cwd=folder, env=dict(os.environ, **env), stdin=subprocess.DEVNULL,
                                   stdout=out, stderr=out, start_new_session=True)

    def is_ready():
        assert process.poll() is None, log.read_text()[-3000:]
        return answers(port)
    try:
        lib.until(is_ready, "the server: " + str(command[0]), 60)
        yield process
    finally:
        process.kill()
        process.wait(30)
