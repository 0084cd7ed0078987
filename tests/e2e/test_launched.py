# SPDX-License-Identifier: Apache-2.0
"""Commands as people type them, of real packages (tests/e2e/launched.txt, installed by scripts/setup): console scripts
of a virtual environment, `-m`, a server with workers, a launcher that is no Python."""
import json
import os
import pathlib
import socket
import subprocess

import pytest

import lib

pytestmark = lib.needs_root
CACHE = pathlib.Path(os.environ.get("PYEBPF_CACHE") or
                     pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "pyebpf")
BIN = CACHE / "bin/launched/bin"
TESTS = ("def helper(n):\n    return n\n\n\n"
         "def test_chosen():\n    assert sum(map(helper, range(30))) == 435\n\n\n"
         "def test_left_out():\n    helper(0)\n")
APP = ("import os\nimport signal\n\n\n"
       "def answer(path):\n    return path.encode()\n\n\n"
       "def app(environ, start_response):\n    start_response('200 OK', [('Content-Type', 'text/plain')])\n"
       "    if environ['PATH_INFO'] == '/end':\n        os.kill(os.getppid(), signal.SIGTERM)\n"
       "    return [answer(environ['PATH_INFO'])]\n")


@pytest.fixture(autouse=True)
def installed():
    if not (BIN / "uv").exists():
        pytest.fail("%s is missing: run scripts/setup" % BIN)


def clean(**more):
    """An environment in which nothing is written beside the program."""
    return dict(os.environ, PYTHONDONTWRITEBYTECODE="1", **more)


def calls(capture, function):
    """How often a function was called, in how many processes; (0, ...) when it is not in the capture."""
    done = lib.sh([lib.BINARY, "stats", capture, "--function", function, "--json"])
    if done.returncode:
        assert b"no function in the capture is called" in done.stderr, done.stderr
        return 0
    report = json.loads(done.stdout)
    assert not any(report["capture"]["lost"].values()) and report["capture"]["complete"]
    return report["calls"]


@pytest.mark.parametrize("how", [["pytest"], ["python3", "-m", "pytest"]], ids=" ".join)
def test_pytest_with_an_expression(how, tmp_path):
    (tmp_path / "test_it.py").write_text(TESTS)
    capture = tmp_path / "t.pyebpf"
    done = lib.trace(["--", BIN / how[0], *how[1:], "-q", "-p", "no:cacheprovider", "-k", "chosen", tmp_path], capture, env=clean(),
                     cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert b"1 passed, 1 deselected" in done.stdout
    assert calls(capture, "test_it.helper") == 30 and calls(capture, "test_chosen") == 1
    assert calls(capture, "test_left_out") == 0


def test_the_status_of_pytest_is_ours(tmp_path):
    (tmp_path / "test_it.py").write_text("def test_wrong():\n    assert 0\n")
    done = lib.trace(["-q", "--", BIN / "pytest", "-q", "-p", "no:cacheprovider", tmp_path], tmp_path / "t.pyebpf", env=clean(),
                     cwd=tmp_path)
    assert done.returncode == 1 and b"1 failed" in done.stdout
    assert calls(tmp_path / "t.pyebpf", "test_wrong") == 1


def get(path, name):
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(60)
        s.connect(str(path))
        s.sendall(b"GET %s HTTP/1.0\r\n\r\n" % name.encode())
        got = b""
        while True:
            piece = s.recv(4096)
            if not piece:
                return got
            got += piece


def test_gunicorn_with_its_workers(tmp_path):
    """It forks its workers, which -s follows; what one calls is counted, and its end is the end of all."""
    (tmp_path / "app.py").write_text(APP)
    listens, capture = tmp_path / "socket", tmp_path / "t.pyebpf"
    command = [lib.BINARY, "trace", "-s", "-q", "-o", capture, "--", BIN / "gunicorn", "-w", "1", "-b", "unix:%s" % listens, "app:app"]
    with lib.started(command, env=clean(), cwd=tmp_path, stderr=subprocess.PIPE) as tracer:
        lib.until(lambda: tracer.poll() is not None or listens.exists(), "gunicorn", 60)
        for i in range(20):
            assert get(listens, "/%d" % i).endswith(b"\r\n\r\n/%d" % i)
        assert get(listens, "/end").endswith(b"/end")
        lib.finish(tracer)
    assert calls(capture, "app.answer") == calls(capture, "app.app") == 21
    report = json.loads(lib.sh([lib.BINARY, "stats", capture, "--by", "process", "--json"]).stdout)
    assert report["processes"] == 2


def test_uv_run(tmp_path):
    """uv is no Python and starts one, of the environment that it is told, as a child."""
    program = tmp_path / "program.py"
    program.write_text("import sys\n\n\ndef leaf():\n    return 1\n\n\nsys.exit(sum(leaf() for _ in range(int(sys.argv[1]))))\n")
    capture = tmp_path / "t.pyebpf"
    env = clean(UV_OFFLINE="1", UV_CACHE_DIR=str(tmp_path / "cache"), UV_NO_CONFIG="1")
    done = lib.trace(["--", BIN / "uv", "run", "--no-project", "--python", BIN / "python", program, "40"], capture, env=env, cwd=tmp_path)
    assert done.returncode == 40, done.stderr
    assert calls(capture, "leaf") == 40
