# SPDX-License-Identifier: Apache-2.0
"""A file system of the store that takes nothing any more, or does not answer: the agent samples on, says so where it is asked, and goes on by
itself when it is back. What was in the store is sent, each window once."""
import contextlib
import fcntl
import os
import pathlib
import shutil
import subprocess
import time

import pytest

import double
import lib
from test_full_disk import Agent, catalogue_is_right
from test_many_services import in_sink, in_store

pytestmark = lib.needs_root

FIFREEZE, FITHAW = 0xC0045877, 0xC0045878


def sh(*args):
    subprocess.run([str(a) for a in args], check=True, stdout=subprocess.DEVNULL)


class Disk:
    """A file system in a file: ext4, so that it can be frozen and have an error."""

    def __init__(self, folder):
        self.image, self.folder = folder / "image", folder / "disk"
        self.folder.mkdir()
        with self.image.open("wb") as f:
            f.truncate(24 << 20)
        sh("mkfs.ext4", "-q", "-F", self.image)
        self.mount()

    def mount(self):
        sh("mount", "-o", "loop,errors=remount-ro", self.image, self.folder)

    def device(self):
        for line in pathlib.Path("/proc/self/mounts").read_text().splitlines():
            if line.split()[1] == str(self.folder):
                return line.split()[0]
        raise AssertionError("not mounted")

    def fail(self):
        """As after an error on the disk: nothing is written any more, by files that are open either."""
        pathlib.Path("/sys/fs/ext4/%s/trigger_fs_error" % os.path.basename(self.device())).write_text("a test")

    def unmount(self):
        sh("umount", "-l", self.folder)

    def replace(self):
        """By a copy that was repaired: who has files open keeps the old one."""
        self.unmount()
        copy = self.image.with_suffix(".repaired")
        shutil.copyfile(self.image, copy)
        assert subprocess.run(["e2fsck", "-f", "-y", copy], stdout=subprocess.DEVNULL, check=False).returncode <= 2
        self.image = copy
        self.mount()

    def freeze(self, request=FIFREEZE):
        fd = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.ioctl(fd, request, 0)
        finally:
            os.close(fd)


@pytest.fixture
def disk(tmp_path):
    if not shutil.which("mkfs.ext4") or not os.path.exists("/dev/loop-control"):
        pytest.skip("no loop devices or ext4 here")
    disk = Disk(tmp_path)
    try:
        yield disk
    finally:
        with contextlib.suppress(OSError):
            disk.freeze(FITHAW)
        disk.unmount()


def everything_came(store, server):
    came, times = in_sink(server.taken)
    assert set(times.values()) == {1}
    assert in_store(store)[0].items() <= came.items()


def test_it_does_not_answer(tmp_path, disk):
    """Frozen for some seconds: windows wait in memory, numbers are told, and not one of the windows is missing."""
    with double.Double() as server, Agent(tmp_path, disk.folder).running("-r", "49", "--sink", "clickhouse=" + server.url) as agent:
        lib.until(lambda: len(agent.windows()) >= 2 and server.taken, "windows", 60)
        before = agent.metrics()
        assert before["pyebpf_store_stuck"] == 0 and agent.get("/readyz")[0] == 200
        disk.freeze()
        try:
            lib.until(lambda: agent.metrics()["pyebpf_store_stuck"] == 1, "that it is stuck", 60)
            assert agent.get("/readyz") == (503, "the file system of the store does not answer: windows wait in memory\n")
            assert agent.get("/healthz")[0] == 200
            during = agent.metrics()
            lib.until(lambda: agent.metrics()["pyebpf_samples_total"] > during["pyebpf_samples_total"] + 50, "samples meanwhile", 60)
            assert agent.metrics()["pyebpf_windows_waiting"] > 2
        finally:
            disk.freeze(FITHAW)
        lib.until(lambda: agent.metrics()["pyebpf_windows_waiting"] == 0, "the windows", 60)
        assert agent.get("/readyz") == (200, "ok\n")
        after = agent.metrics()
        assert after["pyebpf_profiles_unwritten_total"] == 0
        assert not sum(value for name, value in after.items() if name.startswith("pyebpf_events_lost_total"))
        number = len(agent.windows())
        lib.until(lambda: len(agent.windows()) > number, "a new window", 60)
        said = agent.ended(0)
    assert said.count("does not answer") == 1 and said.count("answers again: all windows are written") == 1, said
    # they follow each other without a hole: each begins where the one before ends
    begins = sorted(float(time.mktime(time.strptime(name.split("-")[0], "%Y%m%dT%H%M%SZ"))) for name in {f.name for f in agent.store.glob("*-agent_full_disk-*")})
    assert max(b - a for a, b in zip(begins, begins[1:])) <= 4, begins
    everything_came(agent.store, server)
    catalogue_is_right(agent.store)


def test_read_only(tmp_path, disk):
    """An error of the disk makes it so. What is there is sent on; after it was mounted anew windows are written again."""
    with double.Double(lambda request: 503) as server, \
         Agent(tmp_path, disk.folder).running("-r", "49", "--sink", "clickhouse=%s,max-backoff=1s" % server.url) as agent:
        lib.until(lambda: len(agent.windows()) >= 3 and server.requests, "windows", 60)
        disk.fail()
        lib.until(lambda: agent.metrics()["pyebpf_profiles_unwritten_total"] >= 3, "windows that are not written", 60)
        assert agent.get("/readyz") == (503, "the disk of the store is full or read-only: profiles are not written\n")
        assert agent.get("/healthz")[0] == 200 and agent.metrics()["pyebpf_store_full"] == 1
        during = agent.metrics()["pyebpf_samples_total"]
        lib.until(lambda: agent.metrics()["pyebpf_samples_total"] > during, "samples meanwhile", 60)
        spooled = in_store(agent.store)[0]
        server.answers = lambda request: 200
        lib.until(lambda: spooled.items() <= in_sink(server.taken)[0].items(), "what was spooled", 90)
        time.sleep(2)
        everything_came(agent.store, server)
        disk.replace()
        before = agent.windows()
        lib.until(lambda: len(agent.windows() - before) >= 2 and agent.metrics()["pyebpf_store_full"] == 0, "windows again", 90)
        assert agent.get("/readyz") == (200, "ok\n")
        last = in_store(agent.store)[0]
        lib.until(lambda: last.items() <= in_sink(server.taken)[0].items(), "what came after that", 90)
        said = agent.ended(6)
    assert said.count("Read-only file system") <= 2, said
