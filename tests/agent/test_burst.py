# SPDX-License-Identifier: Apache-2.0
"""Bursts of calls on request: exact numbers, over several stores; who may ask, and how often."""
import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import time

import pytest

import lib

pytestmark = lib.needs_root
# Its work is done once, when it is told to; it says how often it called what.
PROGRAM = """
import os, sys, time
def leaf(n):
    return n
def middle(n):
    for i in range(n):
        leaf(i)
def work():
    for i in range(int(sys.argv[2])):
        middle(3)
def wait():
    while not os.path.exists(sys.argv[1]):
        time.sleep(0.01)
wait()
work()
while True:
    time.sleep(0.1)
"""


def run(*args, **options):
    return subprocess.run([lib.BINARY, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          encoding="utf-8", check=False, timeout=120, **options)


class Agent:
    """An agent with a store and a socket of its own."""

    def __init__(self, folder, *options):
        self.store, self.socket, self.log = folder / "store", folder / "socket", folder / "log"
        self.off, self.file = folder / "off", folder / "burst"
        self.command = [lib.BINARY, "agent", "--store", self.store, "--socket", self.socket, "--listen", "", "--kill-switch", self.off,
                        "--burst-file", self.file, "--window", "5m", *options]

    @contextlib.contextmanager
    def running(self):
        with self.log.open("w") as log, lib.started(self.command, stderr=log) as process:
            self.process = process
            lib.until(lambda: run("agent", "status", "--socket", self.socket).returncode == 0, "the socket", 60)
            yield self

    def status(self):
        return json.loads(run("agent", "status", "--json", "--socket", self.socket).stdout)

    def ask(self, *words):
        return subprocess.Popen([lib.BINARY, "agent", "burst", *map(str, words), "--socket", str(self.socket)], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, encoding="utf-8")

    def said(self, what):
        return re.search(what, self.log.read_text())

    def knows(self, service):
        """It has sampled a process of that name."""
        return "no process of service" not in self.ask("service=" + service, "seconds=1").communicate(timeout=60)[1]


def calls(name, *stores):
    """{function: calls} of its bursts in all stores."""
    done = run("fleet", "top", *[a for s in stores for a in ("--store", s)], "--type", "calls", "--service", name, "-n", "0", "--json")
    assert done.returncode == 0, done.stderr
    return {r["function"]: r["calls"] for r in json.loads(done.stdout)["rows"]}


def test_exact_counts_over_three_stores(tmp_path):
    """Three agents, each with a process of the same service of which it records every call."""
    agents, rounds, path = [], (100, 1000, 37), tmp_path / "agent_burst_app.py"
    path.write_text(PROGRAM)
    with contextlib.ExitStack() as stack:
        for i, n in enumerate(rounds):
            folder = tmp_path / str(i)
            folder.mkdir()
            go = folder / "go"
            process = stack.enter_context(lib.started([*lib.any_python(), path, go, n]))
            agent = stack.enter_context(Agent(folder).running())
            lib.until(lambda: agent.status()["targets"], "targets", 60)
            agents.append((agent, process, go))
        for agent, process, go in agents:
            # it may be that it is not known yet: it sleeps
            for _ in range(50):
                asked = agent.ask("pid=%d" % process.pid, "seconds=8")
                first = asked.stdout.readline()
                if first:
                    break
                assert "is none that is profiled" in asked.communicate(timeout=60)[1]
            assert first == "running: process %d, 8 s\n" % process.pid
            go.touch()
            agent.asked = asked
        for agent, _, _ in agents:
            out, said = agent.asked.communicate(timeout=120)
            assert re.fullmatch(r"done: 1 profiles, \d+ events, 0 lost\n", out), said
            agent.process.send_signal(signal.SIGTERM)
            assert agent.process.wait(60) == 0
    total = sum(rounds)
    got = calls("agent_burst_app", *[a.store for a, _, _ in agents])
    assert (got["work"], got["middle"], got["leaf"]) == (3, total, 3 * total)
    for (agent, _, _), n in zip(agents, rounds):
        got = calls("agent_burst_app", agent.store)
        assert (got["work"], got["middle"], got["leaf"]) == (1, n, 3 * n)
    out = tmp_path / "x.folded"
    done = run("fleet", "flame", *[x for a, _, _ in agents for x in ("--store", a.store)], "--type", "calls", "-o", out)
    assert done.returncode == 0 and "leaf" in out.read_text(), done.stderr
    # samples and calls are never added up: without --type these are other profiles
    done = run("fleet", "top", "--store", agents[0][0].store, "--service", "agent_burst_app")
    assert "calls" not in done.stdout or done.returncode == 4, done.stdout


BUSY = "def burn():\n    return sum(range(1000))\nwhile True: burn()\n"


@pytest.fixture(scope="module")
def agent(tmp_path_factory):
    folder = tmp_path_factory.mktemp("burst")
    path = folder / "agent_burst_busy.py"
    path.write_text(BUSY)
    with lib.started([*lib.any_python(), path]), \
         Agent(folder, "--burst-service", "agent_burst_busy", "--burst-time", "1s", "--burst-max", "3s", "--burst-budget", "100s").running() as made:
        lib.until(lambda: made.knows("agent_burst_busy"), "the program", 60)
        lib.until(lambda: made.status()["burst"] is None, "the end of the burst")
        yield made


def bursts(agent):
    got = agent.status()
    return got["bursts_total"] if got["burst"] is None else -1


def test_of_a_service(agent):
    before = bursts(agent)
    asked = agent.ask("service=agent_burst_busy", "seconds=1")
    out, said = asked.communicate(timeout=60)
    assert re.fullmatch(r"running: service agent_burst_busy, 1 s\ndone: 1 profiles, \d+ events, \d+ lost\n", out), said
    assert bursts(agent) == before + 1 and calls("agent_burst_busy", agent.store)["burn"] > 0


def test_by_signal_and_by_file(agent):
    before = bursts(agent)
    agent.process.send_signal(signal.SIGUSR1)
    lib.until(lambda: bursts(agent) == before + 1, "a burst", 60)
    agent.file.write_text("burst\nservice=agent_burst_busy\nseconds=1\n")
    lib.until(lambda: bursts(agent) == before + 2, "a burst", 60)
    assert not agent.file.exists()


@pytest.mark.parametrize("words, said", [
    (["service=none_of_that_name"], "no process of service none_of_that_name is running"),
    (["pid=1"], "process 1 is none that is profiled"),
    (["service=agent_burst_busy", "seconds=4"], "bursts are at most 3 s long"),
])
def test_refusals(agent, words, said):
    out, err = agent.ask(*words).communicate(timeout=60)
    assert not out and said in err


@pytest.mark.parametrize("words", [["seconds=x"], ["seconds=0"], ["pid=-1"], ["service="], ["x=1"], ["service=a", "pid=1"], ["pid=99999999999"]])
def test_what_is_no_request(agent, words):
    asked = agent.ask(*words)
    assert asked.communicate(timeout=60)[0] == "" and asked.returncode == 2


def test_one_at_a_time_and_within_the_budget(agent):
    first = agent.ask("service=agent_burst_busy", "seconds=3")  # long enough for another to come while it runs
    assert first.stdout.readline().startswith("running")
    assert "a burst of service agent_burst_busy is running" in agent.ask("service=agent_burst_busy").communicate(timeout=60)[1]
    assert first.communicate(timeout=60)[0].startswith("done")
    assert 0 < agent.status()["burst_budget_seconds"] <= 97


def test_the_socket_is_for_root_alone(agent):
    """Mode 0600; and where that is lifted the kernel says who it is."""
    assert oct(agent.socket.stat().st_mode & 0o777) == "0o600"
    code = ("import os, socket, sys\nos.setgroups([]); os.setgid(65534); os.setuid(65534)\ns = socket.socket(socket.AF_UNIX)\n"
            "try:\n    s.connect(sys.argv[1])\nexcept PermissionError:\n    print('refused'); sys.exit()\n"
            "try:\n    s.send(b'status\\n\\n')\n    print(s.recv(100))\nexcept OSError:\n    print(b'')\n")

    def ask():
        return subprocess.run(["/usr/bin/python3", "-c", code, agent.socket], stdout=subprocess.PIPE, encoding="utf-8", check=True, timeout=60).stdout
    assert ask() == "refused\n"
    folders = [p for p in agent.socket.parents if p != pathlib.Path("/tmp") and p.stat().st_mode & 0o001 == 0]
    modes = [(p, p.stat().st_mode) for p in folders]
    try:
        for p, mode in modes:
            p.chmod(mode | 0o001)
        agent.socket.chmod(0o666)
        assert ask() == "b''\n"
    finally:
        agent.socket.chmod(0o600)
        for p, mode in modes:
            p.chmod(mode)


def test_garbage_at_the_socket(agent):
    for data in (b"\n\n", b"x\n\n", b"burst\nseconds=1", b"A" * 5000, b"burst\0\n\n", b"\xff\xfe\n\n", b"status\nformat=xml\n\n"):
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(30)
            s.connect(str(agent.socket))
            with contextlib.suppress(OSError):
                s.sendall(data)
                s.shutdown(socket.SHUT_WR)
                while s.recv(1000):
                    pass
    assert agent.status()["state"] == "running"


def test_kill_switch_is_roots(agent):
    """A file of somebody else's does nothing; root's stops the sampling, and it goes on without it."""
    agent.off.touch()
    os.chown(agent.off, 65534, 65534)
    time.sleep(2.5)  # it looks each second
    assert agent.status()["state"] == "running"
    os.chown(agent.off, 0, 0)
    lib.until(lambda: agent.status()["state"] == "off", "the switch")
    got = agent.status()
    assert got["sampling_hz"] == 0 and "is switched off" in agent.ask("service=agent_burst_busy").communicate(timeout=60)[1]
    time.sleep(1)
    assert agent.status()["samples_total"] == got["samples_total"]
    agent.off.unlink()
    lib.until(lambda: agent.status()["samples_total"] > got["samples_total"], "samples", 60)


def test_killed_in_a_burst(tmp_path):
    """Nothing of it stays: no process, no probe; the next agent takes the socket over."""
    folder = tmp_path
    path = folder / "agent_burst_busy2.py"
    path.write_text(BUSY)
    with lib.started([*lib.any_python(), path]) as program_, Agent(folder).running() as made:
        lib.until(lambda: made.ask("pid=%d" % program_.pid, "seconds=30").stdout.readline().startswith("running"), "a burst", 60)
        child = int(subprocess.run(["pgrep", "-P", str(made.process.pid)], stdout=subprocess.PIPE, check=True).stdout)
        made.process.kill()
        made.process.wait(30)
        lib.until(lambda: not pathlib.Path("/proc/%d" % child).exists(), "its end")
        with Agent(folder).running() as again:
            assert again.status()["state"] == "running"
