# SPDX-License-Identifier: Apache-2.0
"""A store on a disk that is full: the agent starts, samples, lets the newest profiles take the place of the oldest, says what it cannot
write, and goes on by itself when there is room. Sinks are sent nothing twice for that."""
import contextlib
import json
import re
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request

import pytest

import double
import lib
import windows
from test_operation import parse, port_of, run
from test_sinks import FAST, send

pytestmark = lib.needs_root


@pytest.fixture
def disk(tmp_path):
    """A file system of 512 kB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def fill(disk):
    """To the last byte."""
    with contextlib.suppress(OSError), (disk / "filler").open("wb", buffering=0) as f:
        while True:
            f.write(bytes(4096))


class Agent:
    """With a service to sample; what it says and serves."""

    def __init__(self, folder, disk):
        self.folder, self.store, self.log = folder, disk / "store", folder / "log"

    @contextlib.contextmanager
    def running(self, *options):
        path = self.folder / "agent_full_disk.py"
        path.write_text("while True: pass\n")
        with lib.started([*lib.any_python(), path]), self.log.open("w") as out, \
             lib.started([lib.BINARY, "agent", "--store", self.store, "--any-window", "--window", "1s", "--socket", "", "--kill-switch", "",
                          "--burst-file", "", *options], env={"PYEBPF_LISTEN": "127.0.0.1:0"}, stderr=out) as self.process:
            lib.until(self.answers, "an answer: " + self.log.read_text(), 60)
            yield self

    def answers(self):
        assert self.process.poll() is None, self.log.read_text()
        with contextlib.suppress(StopIteration):
            self.url = "http://127.0.0.1:%d" % port_of(self.process.pid)
            return True

    def get(self, path):
        try:
            with urllib.request.urlopen(self.url + path, timeout=30) as r:
                return r.status, r.read().decode()
        except urllib.error.HTTPError as e:
            return e.code, e.read().decode()

    def metrics(self):
        return parse(self.get("/metrics")[1])

    def windows(self):
        return {f.name for f in self.store.glob("*-agent_full_disk-*.pb.gz")}

    def ended(self, code):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(60) == code, self.log.read_text()
        return self.log.read_text()


def catalogue_is_right(store):
    rows = json.loads(run("fleet", "services", "--store", store, "--json").stdout)
    assert sum(r["profiles"] for r in rows) == len(list(store.glob("*.pb.gz")))


def test_the_newest_take_the_place_of_the_oldest(tmp_path, disk):
    """Those of the same window do not, and no more go than what is new needs."""
    made = windows.Made()
    (disk / "store").mkdir()
    for minute in range(60, 0, -1):
        windows.write(disk / "store", made, "older", windows.now_ns() - minute * 60 * 10**9)
    fill(disk)
    with Agent(tmp_path, disk).running() as agent:
        lib.until(lambda: len(agent.windows()) >= 3, "windows", 60)
        assert agent.get("/readyz") == (200, "ok\n") and agent.get("/healthz")[0] == 200
        metrics = agent.metrics()
        assert metrics["pyebpf_profiles_unwritten_total"] == metrics["pyebpf_store_full"] == 0
        left = sorted(f.name for f in agent.store.glob("*-older-*"))
        assert left == sorted(made.windows)[-len(left):] and 0 < metrics["pyebpf_profiles_evicted_total"] and len(left) > 10
        (disk / "filler").unlink()
        said = agent.ended(0)
    assert "profiles were removed before their time: its disk is full" in said
    catalogue_is_right(agent.store)
    assert run("agent", "--store", agent.store, "--listen", "", "--socket", "", "-d", "1s").stderr.count("the catalogue was mended") <= 1
    catalogue_is_right(agent.store)


def test_nothing_to_make_room_with(tmp_path, disk):
    """It says so where it is asked, and counts; when there is room, windows are written and the catalogue is on disk again."""
    fill(disk)
    with Agent(tmp_path, disk).running() as agent:
        lib.until(lambda: agent.metrics()["pyebpf_profiles_unwritten_total"] >= 2, "a window", 60)
        assert agent.metrics()["pyebpf_store_full"] == 1
        assert agent.get("/readyz") == (503, "the disk of the store is full or read-only: profiles are not written\n") and agent.get("/healthz")[0] == 200
        assert not agent.windows() and not [f for f in agent.store.iterdir() if f.name.endswith(".tmp")]
        (disk / "filler").unlink()
        lib.until(lambda: len(agent.windows()) >= 2, "windows", 60)
        assert agent.get("/readyz") == (200, "ok\n") and agent.metrics()["pyebpf_store_full"] == 0
        said = agent.ended(6)
    assert len(re.findall("a window is not whole: .*No space left on device", said)) == 1, said
    assert re.search(r"there is room for profiles again: \d+ were not written", said)
    done = run("agent", "--store", agent.store, "--listen", "", "--socket", "", "-d", "1s")
    assert "the catalogue was mended" not in done.stderr, done.stderr
    catalogue_is_right(agent.store)


def test_no_room_for_the_folder(tmp_path, disk):
    subprocess.run(["mount", "-o", "remount,nr_inodes=2", disk], check=True)
    (disk / "filler").touch()
    with Agent(tmp_path, disk).running() as agent:
        lib.until(lambda: agent.metrics()["pyebpf_profiles_unwritten_total"] >= 2, "a window", 60)
        assert agent.get("/readyz")[0] == 503 and not agent.store.exists()
        subprocess.run(["mount", "-o", "remount,nr_inodes=1000", disk], check=True)
        lib.until(lambda: len(agent.windows()) >= 2, "windows", 60)
        assert agent.get("/readyz")[0] == 200
        agent.ended(6)
    catalogue_is_right(agent.store)


@contextlib.contextmanager
def one_sent(store):
    """A server that was sent the only window of a store."""
    windows.hour(store, minutes=1, services=("shop",))
    with double.Double() as server:
        sink = "pyroscope=" + server.url + FAST
        assert send(store, sink).sent == 1
        yield server, sink


def test_what_was_sent_is_not_sent_again(disk):
    """What cannot be written down is known until it can be."""
    store = disk / "store"
    with one_sent(store) as (server, sink):
        made = windows.Made()
        for minute in range(10, 0, -1):
            windows.write(store, made, "cart", windows.now_ns() - minute * 60 * 10**9)
        fill(disk)

        def answer(request):
            if len(server.requests) == 9:
                (disk / "filler").unlink()
            return 200
        server.answers = answer
        done = send(store, sink)
        assert (done.code, done.sent, done.owed, done.retries) == (0, 10, 0, 0), done.said
        assert send(store, sink).requests == 0 and len(server.taken) == 11


def test_a_disk_that_is_full_to_the_end(disk):
    """Everything is sent; only what was not written down then is sent again, by another sender."""
    store = disk / "store"
    with one_sent(store) as (server, sink):
        windows.hour(store, minutes=5, services=("cart",))
        fill(disk)
        begin = time.monotonic()
        assert send(store, sink).sent == 5 and time.monotonic() - begin < 15
        assert len(server.taken) == 6


def remove(folder):
    """Also when something was just written into it."""
    while folder.exists():
        try:
            shutil.rmtree(folder)
        except OSError:
            time.sleep(0.01)


def test_a_store_that_is_removed(tmp_path):
    """And one that is moved away: the next window makes it anew, and the sinks get what comes then."""
    with double.Double() as server, Agent(tmp_path, tmp_path).running("--sink", "clickhouse=" + server.url) as agent:
        for lose in (remove, lambda store: store.rename(tmp_path / "elsewhere")):
            lib.until(lambda: len(agent.windows()) >= 2, "windows", 60)
            before = len(server.taken)
            lose(agent.store)
            lib.until(lambda: agent.store.exists() and len(agent.windows()) >= 2, "windows in the new one", 60)
            lib.until(lambda: len(server.taken) > before + 2, "pushes out of the new one", 90)
            assert agent.get("/readyz")[0] == 200
        # at most what was being written just then
        unwritten, windows_before = agent.metrics()["pyebpf_profiles_unwritten_total"], agent.windows()
        lib.until(lambda: len(agent.windows() - windows_before) >= 2, "more windows", 60)
        assert agent.metrics()["pyebpf_profiles_unwritten_total"] == unwritten
        said = agent.ended(6 if unwritten else 0)
    assert said.count("was removed: it is made anew") == 2, said
    catalogue_is_right(agent.store)
