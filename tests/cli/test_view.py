# SPDX-License-Identifier: Apache-2.0
"""`pyebpf view`: what its server gives to whom, asked over plain sockets. That a browser shows it is in
tests/readers/test_view_page.py."""
import contextlib
import gzip
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

import pytest

from conftest import PYEBPF, ROOT

sys.path.insert(0, str(ROOT / "tests/readers"))
from made import Script  # noqa: E402 pylint: disable=wrong-import-position
from viewer import NOBODY, as_nobody, viewing  # noqa: E402 pylint: disable=wrong-import-position

FIREFOX = "https://profiler.firefox.com"


@pytest.fixture(scope="module")
def capture():
    """Readable by everybody: the server does not run as root."""
    with tempfile.TemporaryDirectory(prefix="pyebpf-test-") as folder:
        os.chmod(folder, 0o755)
        s = Script()
        s.process(1, 7, "x")
        s.thread(1, 1, 7, "x")
        s.func(1, 1, 1, "shown_function", "/x.py")
        s.call(1, 10, 1)
        s.return_(1, 1000)
        path = s.write(os.path.join(folder, "x.pyebpf"))
        os.chmod(path, 0o644)
        yield path


@pytest.fixture(scope="module")
def server(capture):
    with viewing(capture, "--no-open") as started:
        yield started


def sockets(port):
    """Local addresses that listen on a port, as /proc has them."""
    found = set()
    for table in ("tcp", "tcp6"):
        with open("/proc/net/" + table, encoding="ascii") as rows:
            for row in list(rows)[1:]:
                local, state = row.split()[1], row.split()[3]
                if state == "0A" and int(local.split(":")[1], 16) == port:
                    found.add(local.split(":")[0])
    return found


def test_it_listens_on_loopback_only(server):
    assert sockets(server.port) <= {"0100007F", "00000000000000000000000001000000"}
    assert "0100007F" in sockets(server.port)


def test_the_token_is_random_and_long(server, capture):
    assert re.fullmatch("[0-9a-f]{32}", server.token)
    with viewing(capture, "--no-open") as other:
        assert other.token != server.token


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "POST", "PUT", "DELETE", "TRACE"])
def test_without_the_token_there_is_nothing(server, method):
    wrong = ("0" if server.token[0] != "0" else "1") + server.token[1:]
    last = server.token[:-1] + ("0" if server.token[-1] != "0" else "1")
    for path in ("/", "/index.html", "/profile", "/favicon.ico", "/" + server.token, "/" + server.token[:-1] + "/",
                 "/%s/" % wrong, "/%s/profile" % wrong, "/%s/profile" % last, "//" + server.token + "/",
                 "/%s/" % server.token.upper() if server.token.upper() != server.token else "/x"):
        status, headers, body = server.ask(path, method)
        assert (status, body) == (404, b"")
        assert server.token not in str(headers) and "allow" not in headers
        assert not [name for name in headers if name.startswith("access-control")]


def test_what_the_page_needs_is_there(server):
    status, headers, body = server.ask(server.own())
    assert status == 200 and headers["content-type"].startswith("text/html") and b"script.js" in body
    status, headers, script = server.ask(server.own("script.js"))
    assert status == 200 and headers["content-type"].startswith("text/javascript")
    assert int(headers["content-length"]) == len(script) > 400000
    status, headers, profile = server.ask(server.own("profile"))
    assert status == 200 and profile[:2] == b"\x1f\x8b"
    assert server.ask(server.own("profile"), "HEAD")[::2] == (200, b"")
    assert int(server.ask(server.own("profile"), "HEAD")[1]["content-length"]) == len(profile)


def test_no_other_path_behind_the_token(server):
    for name in ("x", "../etc/passwd", "..%2f", "profile/", "profile?x", "script.js.gz", "%70rofile", "profile\\",
                 "style.css/../profile", "." * 400):
        assert server.ask(server.own(name))[0] == 404


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "localhost",
                                  "127.0.0.1:{port}.evil.example", "localhost:{port}@evil", "127.1:{port}",
                                  "10.0.0.1:{port}", "[::1]", "localhost.:{port}", "0.0.0.0:{port}", ""])
def test_another_host_is_refused(server, host):
    for path in ("/", server.own(), server.own("profile")):
        status, headers, body = server.ask(path, host=host.format(port=server.port))
        assert (status, body) == (403, b"") and server.token not in str(headers)


def test_its_own_hosts(server):
    for host in ("127.0.0.1:%d", "localhost:%d", "LOCALHOST:%d", "[::1]:%d"):
        assert server.ask(server.own(), host=host % server.port)[0] == 200


def test_two_hosts_are_no_request(server):
    status, _, body = server.ask(server.own(), headers=["Host: evil.example"])
    assert (status, body) == (400, b"")


def test_headers_of_every_answer(server):
    for path in (server.own(), server.own("profile"), server.own("script.js"), "/", server.own("x")):
        _, headers, _ = server.ask(path)
        assert headers["cache-control"] == "no-store" and headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer" and headers["connection"] == "close"
        assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'")
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert "'unsafe-inline'" not in headers["content-security-policy"].split("style-src")[0]
        assert "server" not in headers


def test_no_other_site_may_read_it(server):
    for origin in (FIREFOX, "https://evil.example", "null"):
        for method in ("GET", "OPTIONS"):
            for name in ("", "profile"):
                _, headers, _ = server.ask(server.own(name), method, headers=[
                    "Origin: " + origin, "Access-Control-Request-Private-Network: true"])
                assert not [h for h in headers if h.startswith("access-control")]
                assert headers["cross-origin-resource-policy"] == "same-origin"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "TRACE", "CONNECT", "get", "GETT"])
def test_only_reading(server, method):
    status, headers, body = server.ask(server.own("profile"), method)
    assert (status, body) == (405, b"") and headers["allow"] == "get, head, options"


@pytest.mark.parametrize("data", [b"\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/2.0\r\n\r\n", b"GET / \r\n\r\n",
                                  b"GET http://127.0.0.1/ HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\nHost: x\n\n",
                                  b"GET / HTTP/1.1\r\n folded\r\n\r\n", b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
                                  b"GET / HTTP/1.1\r\nHost : x\r\n\r\n", b"GET /\0 HTTP/1.1\r\n\r\n",
                                  b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
                                  b"GET / HTTP/1.1\r\nHost: a\rb\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a\0\r\n\r\n"])
def test_what_is_no_request(server, data):
    """Hung up on, or told that it is none, or, where a header can be read in two ways, that it is not for us."""
    head, _, body = server.raw(data, more=False).partition(b"\r\n\r\n")
    assert not head or re.match(b"HTTP/1.1 (400|403|505) ", head)
    assert server.token.encode() not in head + body and b"shown_function" not in body


def test_a_request_without_an_end(server):
    assert server.raw(b"GET / HTTP/1.1\r\nX: " + b"y" * (8192 - 19)).startswith(b"HTTP/1.1 431 ")


def test_many_who_say_nothing_do_not_keep_others_out(server):
    """More connections than it has room for: they are hung up on, and others get their turn."""
    silent = [socket.create_connection(("127.0.0.1", server.port), timeout=30) for _ in range(40)]
    try:
        assert server.ask(server.own())[0] == 200
    finally:
        for s in silent:
            s.close()


def test_who_takes_too_long_is_hung_up_on(server):
    """Silent, or one who says a byte now and then: the patience is for the whole of a request."""
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as silent, \
            socket.create_connection(("127.0.0.1", server.port), timeout=1) as slow:
        silent.sendall(b"GET / HT")
        slow.sendall(b"GET / HTTP/1.1\r\nX: ")
        with pytest.raises((BrokenPipeError, ConnectionResetError, EOFError)):
            while True:
                slow.sendall(b"y")
                with contextlib.suppress(TimeoutError):
                    if not slow.recv(1):
                        raise EOFError
                assert time.monotonic() - began < 300
        assert silent.recv(1) == b""


def test_firefox_alone_may_read_the_profile(capture):
    with viewing(capture, "--no-open", "--firefox") as server:
        assert server.shown == "%s/from-url/http%%3A%%2F%%2F127.0.0.1%%3A%d%%2F%s%%2Fprofile.json.gz" % (
            FIREFOX, server.port, server.token)
        path = server.own("profile.json.gz")
        for origin, may in ((FIREFOX, True), ("https://evil.example", False), ("null", False),
                            (FIREFOX + ".evil.example", False), ("http://profiler.firefox.com", False)):
            _, headers, _ = server.ask(path, headers=["Origin: " + origin])
            assert (headers.get("access-control-allow-origin") == FIREFOX) == may
            assert may or not [h for h in headers if h.startswith("access-control")]
            _, headers, _ = server.ask(path, "OPTIONS", headers=[
                "Origin: " + origin, "Access-Control-Request-Private-Network: true"])
            assert (headers.get("access-control-allow-private-network") == "true") == may
        _, headers, _ = server.ask(path, "OPTIONS", headers=["Origin: " + FIREFOX])
        assert "access-control-allow-private-network" not in headers
        for other in ("/", server.own(), server.own("x"), server.own("script.js")):
            status, headers, _ = server.ask(other, headers=["Origin: " + FIREFOX])
            assert status == 404 and not [h for h in headers if h.startswith("access-control")]
        assert server.ask(path)[2][:2] == b"\x1f\x8b"
        server.process.send_signal(signal.SIGINT)
        said = server.process.stderr.read()
        assert "allow it" in said and "local network" in said and "command line" in said
        assert server.process.wait(30) == 0


def test_an_instance_of_ones_own_may_read_it_and_no_other(capture):
    own = "https://profiler.example:8443"
    with viewing(capture, "--no-open", "--firefox-url", own.upper() + "/") as server:
        assert server.shown.startswith(own + "/from-url/http%3A%2F%2F127.0.0.1%3A")
        for origin, may in ((own, True), (FIREFOX, False), ("https://profiler.example", False), ("null", False)):
            _, headers, _ = server.ask(server.own("profile.json.gz"), headers=["Origin: " + origin])
            assert headers.get("access-control-allow-origin") == (own if may else None)
        server.process.send_signal(signal.SIGINT)
        assert "whether profiler.example:8443 may" in server.process.stderr.read()


def test_a_profile_of_another_tool(public_tmp):
    """Whatever `convert` reads; here the format of flame graphs."""
    path = public_tmp / "x.folded"
    path.write_text("main;foreign_function 70\nmain;other 30\n")
    path.chmod(0o644)
    with viewing(path, "--no-open") as server:
        got = gzip.decompress(server.ask(server.own("profile"))[2]).decode()
    assert "foreign_function" in got and "www.speedscope.app/file-format-schema.json" in got
    with viewing(path, "--no-open", "--firefox") as server:
        assert "foreign_function" in gzip.decompress(server.ask(server.own("profile.json.gz"))[2]).decode()


def test_once(capture):
    with viewing(capture, "--no-open", "--once") as server:
        assert server.ask(server.own())[0] == 200 and server.ask(server.own("profile"), "HEAD")[0] == 200
        assert server.process.poll() is None
        assert server.ask(server.own("profile"))[0] == 200
        assert server.process.wait(30) == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_it_ends_on_a_signal(capture, number):
    with viewing(capture, "--no-open") as server:
        server.process.send_signal(number)
        assert server.process.wait(30) == 0


def test_another_address_has_to_be_asked_for(capture):
    with viewing(capture, "--no-open", "--address", "127.0.0.2") as server:
        assert server.address == "127.0.0.2" and sockets(server.port) == {"0200007F"}
        assert server.ask(server.own(), host="127.0.0.2:%d" % server.port)[0] == 200
        assert server.ask(server.own(), host="127.0.0.3:%d" % server.port)[0] == 403
        server.process.send_signal(signal.SIGINT)
        assert "others can connect" in server.process.stderr.read()


def test_every_address_but_no_name(capture):
    with viewing(capture, "--no-open", "--address", "0.0.0.0") as server:
        for host, status in (("127.0.0.9:%d", 200), ("10.0.0.9:%d", 200), ("evil.example:%d", 403), ("10.0.0.9", 403)):
            host = host % server.port if "%" in host else host
            assert server.ask(server.own(), host=host)[0] == status


def test_over_ssh_it_says_how_to_forward(capture):
    with viewing(capture, env={"SSH_CONNECTION": "10.1.2.3 5000 10.9.8.7 22", "BROWSER": "/bin/false"}) as server:
        server.process.send_signal(signal.SIGINT)
        said = server.process.stderr.read()
    assert "ssh -L %d:127.0.0.1:%d nobody@10.9.8.7\n" % (server.port, server.port) in said


def test_a_browser_is_started_without_a_shell(capture, public_tmp):
    """It gets the address as its argument, as it is, and nobody's rights."""
    fake, out = public_tmp / "a browser; touch x", public_tmp / "out"
    fake.write_text("#!/bin/sh\n{ id -u; printf '%%s\\n' \"$#\" \"$@\"; ls -l /proc/self/fd | wc -l; } >%s.tmp\n"
                    "mv %s.tmp %s\n" % (out, out, out))
    fake.chmod(0o755)
    with viewing(capture, env={"BROWSER": str(fake)}) as server:
        end = time.monotonic() + 60
        while not out.exists():
            assert time.monotonic() < end and server.process.poll() is None
            time.sleep(0.02)
        uid, count, url, files = out.read_text().split()
        assert int(uid) != 0 and count == "1" and url == server.shown
        # a line for the sum, three of its own and that of the folder itself
        assert int(files) <= 5
        # a browser that has ended does not end the server
        assert server.ask(server.own())[0] == 200
    assert not (public_tmp / "x").exists()


@pytest.mark.needs_root
def test_root_does_not_serve(capture, pyebpf):
    done = pyebpf("view", capture, "--no-open", env={**os.environ, "SUDO_UID": "", "SUDO_GID": ""})
    assert done.returncode == 3 and "does not run as root" in done.stderr
    assert "pyebpf convert FILE -o FILE.html" in done.stderr and done.stdout == ""
    done = pyebpf("view", capture, "--no-open", env={**os.environ, "SUDO_UID": "0", "SUDO_GID": "0"})
    assert done.returncode == 3


@pytest.mark.needs_root
def test_through_sudo_it_is_the_user_who_serves(capture):
    env = {"SUDO_UID": str(NOBODY.pw_uid), "SUDO_GID": str(NOBODY.pw_gid)}
    with viewing(capture, "--no-open", env=env, user=False) as server:
        status = dict(line.split(":\t", 1) for line in
                      open("/proc/%d/status" % server.process.pid, encoding="ascii").read().splitlines())
        assert set(status["Uid"].split()) == {str(NOBODY.pw_uid)}
        assert set(status["Gid"].split()) == {str(NOBODY.pw_gid)}
        assert int(status["CapEff"], 16) == int(status["CapPrm"], 16) == 0 and "0" not in status["Groups"].split()
        assert server.ask(server.own("profile"))[0] == 200


@pytest.mark.needs_root
@pytest.mark.parametrize("verb", ["trace", "record"])
def test_open_at_the_end(verb, pyebpf, any_python, public_tmp):
    """The capture of a command is shown when it has ended, by the user who typed sudo; its status comes after that."""
    fake, out, program = public_tmp / "browser", public_tmp / "out", public_tmp / "program.py"
    fake.write_text("#!/bin/sh\nprintf '%%s' \"$1\" >%s.tmp && mv %s.tmp %s\n" % (out, out, out))
    fake.chmod(0o755)
    program.write_text("import sys, time\ndef shown_function():\n    end = time.time() + 0.3\n    while time.time() < end: pass\n"
                       "shown_function()\nprint('its own')\nsys.exit(3)\n")
    env = {k: v for k, v in os.environ.items() if k not in ("SSH_CONNECTION", "DISPLAY", "WAYLAND_DISPLAY")}
    env.update(SUDO_UID=str(NOBODY.pw_uid), SUDO_GID=str(NOBODY.pw_gid), BROWSER=str(fake))
    with pyebpf.started(verb, "--open", "-q", "-o", public_tmp / "x.pb.gz", "--", *any_python.command, "-S", program, env=env,
                        cwd=public_tmp, stdout=subprocess.PIPE) as process:
        end = time.monotonic() + 60
        while not out.exists():
            assert time.monotonic() < end and process.poll() is None, process.stderr.read()
            time.sleep(0.02)
        url = out.read_text()
        with urllib.request.urlopen(url + "profile", timeout=60) as answer:
            assert b"shown_function" in gzip.decompress(answer.read())
        assert (public_tmp / "x.pb.gz").exists() and not (public_tmp / "x.pyebpf").exists()
        os.killpg(process.pid, signal.SIGINT)
        stdout, said = process.communicate(timeout=60)
        assert (process.returncode, stdout) == (3, "its own\n") and url in said


@pytest.mark.needs_root
def test_open_is_refused_before_the_work_where_root_would_serve(pyebpf, any_python, public_tmp):
    env = {**os.environ, "SUDO_UID": "", "SUDO_GID": ""}
    done = pyebpf("trace", "--open", "--", *any_python.command, "-c", "print('has run')", env=env, cwd=public_tmp)
    assert done.returncode == 125 and "does not run as root" in done.stderr and "pyebpf view later" in done.stderr
    assert done.stdout == "" and not os.listdir(public_tmp)


@pytest.mark.parametrize("args, code, words", [
    ([], 2, "want one file"), (["x", "y"], 2, "want one file"), (["/nowhere"], 2, "cannot read /nowhere"),
    (["x", "--port", "70000"], 2, "65535"), (["x", "--address", "example.com"], 2, "as a number"),
    (["x", "--firefox-url", "profiler.example"], 2, "want a site"), ([__file__], 2, ""),
])
def test_errors(args, code, words):
    with subprocess.Popen([PYEBPF, "view", *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, encoding="utf-8", cwd="/",
                          preexec_fn=as_nobody if os.geteuid() == 0 else None) as process:
        out, said = process.communicate(timeout=60)
    assert (process.returncode, out) == (code, "") and words in said and said.count("\n") <= 3


def test_a_port_that_is_taken(capture, server):
    process = None
    with subprocess.Popen([PYEBPF, "view", capture, "--no-open", "--port", str(server.port)],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          encoding="utf-8", preexec_fn=as_nobody if os.geteuid() == 0 else None) as process:
        _, said = process.communicate(timeout=60)
    assert process.returncode == 1 and "cannot listen on 127.0.0.1, port %d" % server.port in said
