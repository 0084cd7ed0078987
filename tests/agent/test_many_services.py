# SPDX-License-Identifier: Apache-2.0
"""Many services that live at once, through the agent, its store and a sink: each window comes there once, value by value, and neither the
numbers for Prometheus nor the memory grow with them. The long form has 400."""
import collections
import contextlib
import pathlib
import re
import signal
import subprocess
import urllib.request

import double
import lib
import rowbinary
from protobuf import Pprof
from test_operation import parse, port_of

MANY = 400 if lib.LONG else 60
MEMORY = 64 << 20
# Mostly asleep, and never in step with the samples.
PROGRAM = """import random, time
while True:
    end = time.process_time() + 0.004
    while time.process_time() < end: pass
    time.sleep(random.random() * %f)
""" % (MANY / 75)


@contextlib.contextmanager
def services(folder):
    """{pid: name} of programs, each of a name of its own."""
    python, running = lib.any_python(), {}
    try:
        for number in range(MANY):
            path = folder / ("many_services_%d.py" % number)
            path.write_text(PROGRAM)
            process = subprocess.Popen([*map(str, python), "-S", "-E", str(path)], stdin=subprocess.DEVNULL)
            running[process] = path.stem
        yield {process.pid: name for process, name in running.items()}
    finally:
        for process in running:
            process.kill()
        for process in running:
            process.wait(60)


def label_of(profile, name):
    (value,) = [c.split("=", 1)[1] for c in profile.comments if c.startswith("label: %s=" % name)]
    return value


def in_store(store):
    """{(service, start, type): values in order}, and the number of windows."""
    out, files = {}, list(store.glob("*.pb.gz"))
    for file in files:
        p = Pprof(file.read_bytes())
        for i, kind in enumerate(p.types):
            values = sorted(v[i] for v in p.stacks.values() if v[i])
            if values:
                key = label_of(p, "service_name"), p.time_ns, "%s/%s" % kind
                out[key] = sorted(out.get(key, []) + values)
    return out, len(files)


def in_sink(requests):
    """The same of what a server has taken, each profile once, and how many times each came."""
    out, times = {}, collections.Counter()
    for request in (r for r in requests if "profiles" in r.path):
        for row in rowbinary.profiles(request.body):
            times[row["profile"], row["type"]] += 1
            if times[row["profile"], row["type"]] > 1:
                continue
            stacks = collections.Counter()
            for stack, value in zip(row["stacks"], row["values"]):
                stacks[stack] += value
            key = row["service"], row["start_ns"], row["type"]
            out[key] = sorted(out.get(key, []) + [v for v in stacks.values() if v])
    return out, times


def rss(pid):
    return int(lib.status_field(pid, "VmRSS").split()[0]) << 10


def sender_of(pid):
    """The process of an agent's that sends; None while there is none."""
    for child in pathlib.Path("/proc/%d/task/%d/children" % (pid, pid)).read_text().split():
        with contextlib.suppress(OSError):
            if pathlib.Path("/proc/%s/comm" % child).read_text() == "pyebpf-send\n":
                return int(child)
    return None


def wait_for(server, names):
    """Until a server was sent all of these."""
    missing, looked = set(names), 0

    def all_came():
        nonlocal looked
        while looked < len(server.taken):
            request = server.taken[looked]
            looked += 1
            if "profiles" in request.path:
                missing.difference_update(row["service"] for row in rowbinary.profiles(request.body))
        return not missing
    try:
        lib.until(all_came, "services", 300 if lib.LONG else 90)
    except AssertionError:
        assert not missing
        raise


@lib.needs_root
def test_many(tmp_path):
    store = tmp_path / "store"
    with double.Double() as server, services(tmp_path) as alive, \
         lib.started([lib.BINARY, "agent", "--store", store, "--any-window", "--window", "5s", "-r", "49", "--max-cpu", "20", "--socket", "", "--kill-switch", "",
                      "--burst-file", "", "--sink", "clickhouse=" + server.url], env={"PYEBPF_LISTEN": "127.0.0.1:0"},
                     stderr=subprocess.PIPE) as agent:
        names = set(alive.values())
        wait_for(server, names)
        with urllib.request.urlopen("http://127.0.0.1:%d/metrics" % port_of(agent.pid), timeout=30) as answer:
            metrics = answer.read().decode()
        memory = rss(agent.pid), rss(sender_of(agent.pid))
        said = lib.stop(agent, number=signal.SIGTERM)
    numbers = parse(metrics)
    assert numbers["pyebpf_targets"] >= MANY and len(numbers) < 150
    assert {n for m in numbers for n in re.findall(r'([a-z_]+)="', m)} == {"code", "reason", "sink", "state", "version"}
    assert "many_services" not in metrics
    held, windows = in_store(store)
    came, times = in_sink(server.taken)
    assert names <= {service for service, _, _ in held} and held == came
    assert set(times.values()) == {1} and len({profile for profile, _ in times}) == windows, said
    print("%d services: %.1f MB, its sender %.1f MB" % (MANY, memory[0] / 1e6, memory[1] / 1e6))
    assert memory[0] <= MEMORY, memory
