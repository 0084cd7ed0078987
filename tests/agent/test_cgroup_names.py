# SPDX-License-Identifier: Apache-2.0
"""Real cgroups whose names are meant to break something, with a program in each: who may make cgroups chooses what units and containers are
called. Names of services, labels, files, queries, pushes and numbers stay what they are."""
import contextlib
import os
import pathlib
import re
import signal
import subprocess
import time
import urllib.request

import pytest

import double
import lib
import rowbinary
from protobuf import Pprof
from test_many_services import in_sink, in_store
from test_operation import parse, port_of
from test_push import DECODE, good
from test_service_names import fleet, selector, services

ID = "0123456789abcdef" * 4
POD = "kubepods-burstable-pod01234567_89ab_cdef_0123_456789abcdef.slice"
# names of units: what is before .service, and the service's name
UNITS = {b"quote\"it's": "quote\"it's", b"50%s%n%00": "50%s%n%00", b"\xff\xfe\xc3": "\\xff\\xfe\\xc3", b"u" * 247: "u" * 247, b"..%2f..%2fetc": "..%2f..%2fetc",
         b"...": "...", b"{job=\"x\"}": "{job=\"x\"}", b"\x1b[31mred\r": "\\x1b[31mred\\x0d", b" ": " ", b"<script>alert(1)": "<script>alert(1)",
         b"a\\x41": "a\\x41", b"'); DROP TABLE profiles --": "'); DROP TABLE profiles --", "\u202egnp".encode(): "\\u202egnp", b"a:b=c,d": "a:b=c,d",
         b"$(id)`id`": "$(id)`id`", b"docker-%s.scope" % ID.encode(): "docker-%s.scope" % ID}
# cgroups that look like those of containers; and the id that is shown, None where it is none
CONTAINERS = {b"docker-%s.scope" % ID.encode(): ID[:12], b"docker-%s.scope" % (ID[:20] + "\"").encode(): None, b"docker/" + ID.encode(): ID[:12],
              b"docker/..." + ID.encode(): ID[:12], b"%s/cri-containerd-%s.scope" % (POD.encode(), ID.encode()): ID[:12],
              b"lxc/\x1b[31m\"red\"": "\\x1b[31m\"red\"", b"machine-%s%%n.scope" % (b"m" * 240): "m" * 240 + "%n"}
PROGRAM = """import os, sys
with open(sys.argv[1], "w") as f: f.write(str(os.getpid()))
while True:
    sum(range(1000))
"""


def unified():
    """Where cgroups of version 2 are."""
    for line in pathlib.Path("/proc/self/mounts").read_text().splitlines():
        fields = line.split()
        if fields[2] == "cgroup2" and "rw" in fields[3].split(","):
            return os.fsencode(fields[1])
    return None


def remove(folder):
    for name in os.listdir(folder):
        if os.path.isdir(folder + b"/" + name):
            remove(folder + b"/" + name)
    for _ in range(100):
        with contextlib.suppress(OSError):
            return os.rmdir(folder)
        time.sleep(0.05)


@pytest.fixture
def cgroups():
    """Makes a cgroup of a name, below one that is ours; its path."""
    if not unified():
        pytest.skip("no cgroups of version 2")
    base = unified() + b"/pyebpf-names-%d" % os.getpid()
    os.mkdir(base)

    def make(name):
        os.makedirs(base + b"/" + name)
        return base + b"/" + name
    try:
        yield make
    finally:
        remove(base)


@contextlib.contextmanager
def program(folder, name, cgroup):
    """In the cgroup from its first instruction on."""
    path = folder / (name + ".py")
    path.write_text(PROGRAM)
    # nice: all of them together are many
    process = subprocess.Popen(["sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec nice "$@"', cgroup, *map(str, lib.any_python()), path, folder / (name + ".pid")],
                               stdin=subprocess.DEVNULL)
    try:
        lib.until(lambda: (folder / (name + ".pid")).exists() or process.poll() is not None, "the program", 60)
        assert process.poll() is None
        yield process
    finally:
        process.kill()
        process.wait(30)


def test_a_newline(cgroups):
    """The kernel makes no such one: it would be a line of its own in /proc/PID/cgroup."""
    with pytest.raises(OSError):
        cgroups(b"a\n0::")


@lib.needs_root
def test_names(cgroups, tmp_path):
    store, log, file = tmp_path / "store", tmp_path / "log", tmp_path / "agent.yaml"
    with contextlib.ExitStack() as stack:
        servers = {kind: stack.enter_context(double.Double(good(kind) if kind != "clickhouse" else None)) for kind in ("clickhouse", "parca", "pyroscope")}
        file.write_text("relabel_configs:\n  - source_labels: [__meta_process_cgroup]\n    target_label: cgroup\nsinks:\n" +
                        "".join("  - type: %s\n    url: %s\n" % (kind, server.url) for kind, server in servers.items()))
        for number, name in enumerate(UNITS):
            stack.enter_context(program(tmp_path, "cgroup_unit_%d" % number, cgroups(name + b".service")))
        for number, name in enumerate(CONTAINERS):
            stack.enter_context(program(tmp_path, "cgroup_container_%d" % number, cgroups(b"c%d/" % number + name)))
        out = stack.enter_context(log.open("w"))
        agent = stack.enter_context(lib.started([lib.BINARY, "agent", "--config", file, "--store", store, "--any-window", "--window", "5s", "-r", "99",
                                                 "--max-cpu", "20", "--socket", "", "--kill-switch", "", "--burst-file", ""],
                                                env={"PYEBPF_LISTEN": "127.0.0.1:0"}, stderr=out))
        names = set(UNITS.values()) | {"cgroup_container_%d" % n for n in range(len(CONTAINERS))}
        lib.until(lambda: list(store.glob("*.pb.gz")) and names <= services(store), "windows of all", 120)
        with urllib.request.urlopen("http://127.0.0.1:%d/metrics" % port_of(agent.pid), timeout=30) as answer:
            metrics = answer.read().decode()
        agent.send_signal(signal.SIGTERM)
        assert agent.wait(60) == 0, log.read_text()
    parse(metrics)
    assert "script" not in metrics and ID[:12] not in metrics
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202e]", log.read_text())
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+", p.name) and len(p.name) < 120 for p in store.iterdir())
    shown = fleet("services", "--store", store).decode()
    assert "\x1b" not in shown and "\u202e" not in shown and "\r" not in shown
    for name in names:
        for chosen in (("--service", name), ("--query", selector(name))):
            assert fleet("top", "--store", store, *chosen, "--json") != b"", name
    # what is in the store came, in each server under the same names
    held = in_store(store)[0]
    came, times = in_sink(servers["clickhouse"].taken)
    assert held == came and set(times.values()) == {1}
    labels = {row["service"]: row["labels"] for r in servers["clickhouse"].taken if "profiles" in r.path for row in rowbinary.profiles(r.body)}
    for number, shown in enumerate(CONTAINERS.values()):
        assert labels["cgroup_container_%d" % number].get("container_id") == shown
    for name, service in UNITS.items():
        assert labels[service]["cgroup"].endswith((service + ".service")[-100:]) or len(name) > 200, labels[service]
    for kind in ("parca", "pyroscope"):
        pushed = [DECODE[kind](r) for r in servers[kind].taken]
        assert names <= {found["service_name"] for found, _ in pushed} and not any("container_id" in found for found, _ in pushed)
        assert {(found["service_name"], Pprof(data).time_ns) for found, data in pushed} == {key[:2] for key in held}
