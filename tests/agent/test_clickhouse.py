# SPDX-License-Identifier: Apache-2.0
"""A real ClickHouse of three shards: what was sent is there, value by value, however often it was sent and whatever died."""
import collections
import json
import random
import re
import signal
import subprocess
import threading
import time

import pytest

import clickhouse
import double
import fleet_sums
import lib
import simulated
import windows
from protobuf import Pprof
from test_service_names import selector
from test_sinks import FAST, send


@pytest.fixture(scope="module")
def running_cluster(tmp_path_factory):
    cluster = clickhouse.Cluster(tmp_path_factory.mktemp("clickhouse"))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture
def cluster(running_cluster):
    running_cluster.empty()
    return running_cluster


def stacks_of(cluster):
    """{(service, stack hash): ((name, file, line), ...)}"""
    rows = cluster.sql("SELECT service, stack, arrayStringConcat(names, '\\x01'), arrayStringConcat(files, '\\x01'), "
                       "arrayStringConcat(arrayMap(x -> toString(x), lines), '\\x01') FROM stacks FINAL")
    return {(service, stack): tuple((n, f, int(l)) for n, f, l in zip(*(c.split("\x01") for c in columns)))
            for service, stack, *columns in rows}


def sums_of(cluster):
    """As windows.Made.sums, from the cluster."""
    names, got = stacks_of(cluster), collections.defaultdict(lambda: collections.defaultdict(lambda: [0] * len(windows.TYPES)))
    types = ["%s/%s" % kind for kind in windows.TYPES]
    for service, kind, stack, value in cluster.sql(
            "SELECT service, type, stack, sum(value) FROM profiles FINAL ARRAY JOIN stacks AS stack, values AS value GROUP BY service, type, stack"):
        got[service][names[service, stack]][types.index(kind)] += int(value)
    return got


def rows_of(*made):
    """Rows of profiles that windows make, when no type of values is all 0."""
    return sum(len(m.windows) for m in made) * len(windows.TYPES)


def test_value_by_value(cluster, tmp_path):
    made = windows.hour(tmp_path / "store", services=("shop", "cart", "söme \"name\""), zone="a b\"c")
    assert send(tmp_path / "store", "clickhouse=" + cluster.url).sent == len(made.windows)
    cluster.settle(rows_of(made))
    assert sums_of(cluster) == made.sums
    labels = cluster.sql("SELECT DISTINCT lv[indexOf(lk, 'zone')], lv[indexOf(lk, 'node')], node FROM profiles")
    assert labels == [["a b\"c", "node-1", "node-1"]]
    spans = cluster.sql("SELECT min(start_ns), max(end_ns), min(toUInt32(ts)), min(period) FROM profiles")[0]
    assert int(spans[0]) // 10**9 == int(spans[2]) and int(spans[1]) - int(spans[0]) == 55 * 60 * 10**9 and int(spans[3]) == windows.PERIOD_NS


def test_names_of_services_that_break_queries(cluster, tmp_path):
    made = windows.hour(tmp_path / "store", services=windows.HOSTILE, minutes=2)
    assert send(tmp_path / "store", "clickhouse=" + cluster.url).sent == len(made.windows)
    cluster.settle(rows_of(made))
    listed = json.loads(fleet("services", "--server", cluster.url, "--json"))
    assert {s["service"] for s in listed} == set(windows.HOSTILE)
    for name in windows.HOSTILE:
        for chosen in (("--service", name), ("--query", selector(name))):
            assert json.loads(fleet("top", "--server", cluster.url, *chosen, "--json"))["calls"] == made.total(name)[0], name


def test_sent_again(cluster, tmp_path):
    """As after a lost outbox: the rows have the same keys, and the sums stay."""
    made = windows.hour(tmp_path / "store", minutes=10)
    for _ in range(3):
        send(tmp_path / "store", "clickhouse=" + cluster.url)
        (tmp_path / "store/outbox.sqlite").unlink()
    cluster.settle(rows_of(made))
    assert sums_of(cluster) == made.sums


def test_many_nodes_meet_on_their_shards(cluster, tmp_path):
    made = []
    for i in range(12):
        made.append(windows.hour(tmp_path / str(i), minutes=3, node="node-%d" % i))
        assert send(tmp_path / str(i), "clickhouse=" + cluster.shards[i % 3].url).owed == 0
    cluster.settle(rows_of(*made))
    total = windows.Made()
    for m in made:
        for service, samples in m.sums.items():
            total.add(service, samples)
    assert sums_of(cluster) == total.sums
    held = [int(shard.sql("SELECT count() FROM profiles_local")[0][0]) for shard in cluster.shards]
    assert all(held), held
    nodes = [{row[0] for row in shard.sql("SELECT DISTINCT node FROM profiles_local")} for shard in cluster.shards]
    assert sum(map(len, nodes)) == 12


def test_a_shard_dies_under_load(cluster, tmp_path):
    """Senders go on while it is dead, by another server where theirs was the dead one, and nothing is lost or counted twice."""
    rng, made, stop, wrong = random.Random(1), {}, threading.Event(), []

    def sender(i):
        store, made[i] = tmp_path / ("store%d" % i), windows.Made()
        store.mkdir()
        urls = " ".join(cluster.shards[(i + k) % 3].url for k in range(3))
        seed = 0
        while not stop.is_set():
            for _ in range(4):
                seed += 1
                windows.write(store, made[i], "shop", windows.now_ns() - 10**9 * seed, node="node-%d" % i, seed=seed, length_s=1)
            done = send(store, "clickhouse=" + urls + FAST)
            if done.code:
                wrong.append(done.said)
    threads = [threading.Thread(target=sender, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    time.sleep(1 + rng.random())
    cluster.shards[2].kill()
    time.sleep(3)
    cluster.shards[2].start()
    lib.until(cluster.shards[2].is_ready, "the shard", 60)
    time.sleep(1)
    stop.set()
    for thread in threads:
        thread.join(60)
    assert not wrong, wrong
    total = windows.Made()
    for m in made.values():
        total.add("shop", m.sums["shop"])
    wanted = sum(len(m.windows) for m in made.values())
    cluster.settle_on("SELECT count() FROM (SELECT DISTINCT profile FROM profiles)", wanted)
    assert sums_of(cluster) == total.sums


def test_killed_senders(cluster, tmp_path):
    made, rng = windows.hour(tmp_path / "store", minutes=30), random.Random(9)
    command = [lib.BINARY, "fleet", "send", "--store", tmp_path / "store", "--sink", "clickhouse=" + cluster.url]
    for i in range(30):
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        time.sleep(rng.random() * 0.12)
        process.kill()
        process.wait(30)
        windows.write(tmp_path / "store", made, "cart", windows.now_ns(), seed=i)
    assert send(tmp_path / "store", "clickhouse=" + cluster.url).owed == 0
    cluster.settle_on("SELECT count() FROM (SELECT DISTINCT profile FROM profiles)", len(made.windows))
    assert sums_of(cluster) == made.sums


def profile_keys(store):
    """{(service, first ns, last ns)} of the windows of a store, by what is in them."""
    keys = collections.Counter()
    for file in store.glob("*.pb.gz"):
        profile = Pprof(file.read_bytes())
        (service,) = (s for s in profile.strings if s.startswith("label: service_name="))
        keys[service.partition("=")[2], profile.time_ns, profile.time_ns + profile.duration_ns] += 1
    return keys


def windows_of(store, service):
    return sum(key[0] == service for key in profile_keys(store))


def said_written(log):
    return sum(int(n) for n in re.findall(r"window \d+: (\d+) profiles", log.read_text()))


@lib.needs_root
def test_the_agent_killed_at_random_moments(cluster, tmp_path):
    """With its sender: what it had written is there after each kill, and in the end each window is in the cluster, once."""
    seed = random.randrange(1 << 32)
    rng, store, log, program = random.Random(seed), tmp_path / "store", tmp_path / "log", tmp_path / "agent_killed.py"
    program.write_text("def burn():\n    while True: pass\nburn()\n")
    urls = " ".join(shard.url for shard in cluster.shards)
    command = [lib.BINARY, "agent", "--store", store, "--any-window", "--window", "1s", "--listen", "", "--socket", "", "-r", "99",
               "--sink", "clickhouse=" + urls + FAST]
    with lib.started([*lib.any_python(), program]):
        kept = 0
        for n in range(100 if lib.LONG else 6):
            with log.open("w") as out, lib.started(command, stderr=out) as agent:
                # half of them while they start, at any moment; half when windows are written and sent
                if n % 2:
                    before = windows_of(store, "agent_killed")
                    lib.until(lambda: windows_of(store, "agent_killed") > before, "a window", 60)
                time.sleep(rng.random() * 1.5)
                agent.send_signal(signal.SIGKILL)
                agent.wait(30)
            there = len(list(store.glob("*.pb.gz")))
            assert there >= kept + said_written(log), "round %d of seed %d" % (n, seed)
            kept = there
    wanted = profile_keys(store)
    own = {key: n for key, n in wanted.items() if key[0] == "agent_killed"}
    assert len(own) >= 3 and set(own.values()) == {1}  # other programs of a name may differ in their labels
    assert send(store, "clickhouse=" + urls).owed == 0
    cluster.settle_on("SELECT count() FROM (SELECT DISTINCT profile FROM profiles)", len(wanted))
    got = cluster.sql("SELECT service, start_ns, end_ns, count() FROM profiles FINAL WHERE type = 'samples/count' GROUP BY service, start_ns, end_ns")
    assert {(s, int(a), int(b)): int(n) for s, a, b, n in got} == wanted, seed
    for service in {key[0] for key in wanted}:
        there, here = (json.loads(fleet("top", *where, "--service", service, "--json", "-n", "0"))
                       for where in (("--server", cluster.url), ("--store", store)))
        assert there["calls"] == here["calls"] > 0


def refused(store, sink, what):
    """The end of a `fleet send` that was told why; the servers may be slow to answer."""
    def told():
        done = send(store, sink, duration="3s")
        return done if what in done.said else None
    return lib.until(told, what, 120)


def test_a_login(cluster, tmp_path):
    windows.hour(tmp_path / "store", minutes=1)
    password = tmp_path / "password"
    password.write_text("wrong")
    password.chmod(0o600)
    sink = "clickhouse=%s,user=agent,password-file=%s,max-backoff=1s" % (cluster.url, password)
    done = refused(tmp_path / "store", sink, "Wrong password")
    assert done.sent == 0 and done.owed == 2
    password.write_text("pass word")
    assert send(tmp_path / "store", sink).sent == 2


def test_tables_that_are_not_there(cluster, tmp_path):
    """Is no reason to throw anything away."""
    windows.hour(tmp_path / "store", minutes=1)
    cluster.sql("CREATE DATABASE IF NOT EXISTS empty")
    done = refused(tmp_path / "store", "clickhouse=%s,database=empty,max-backoff=1s" % cluster.url, "doesn't exist")
    assert done.sent == 0 and done.owed == 2


# --- fleet: the cluster adds up ---

def fleet(*args, code=0):
    done = subprocess.run([lib.BINARY, "fleet", *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
                          check=False, timeout=60)
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


@pytest.fixture(scope="module")
def filled(running_cluster, tmp_path_factory):
    """Six nodes of two zones; (cluster, [(node, zone, Made)], a store with all of them)."""
    running_cluster.empty()
    folder, nodes = tmp_path_factory.mktemp("filled"), []
    (folder / "all").mkdir()
    for i in range(6):
        zone = "ab"[i % 2]
        made = windows.hour(folder / ("node%d" % i), minutes=8, node="node-%d" % i, zone=zone)
        assert send(folder / ("node%d" % i), "clickhouse=" + running_cluster.shards[i % 3].url).owed == 0
        for name in made.windows:
            (folder / "all" / name).hardlink_to(folder / ("node%d" % i) / name)
        nodes.append(("node-%d" % i, zone, made))
    running_cluster.settle(rows_of(*(n[2] for n in nodes)))
    return running_cluster, nodes, folder / "all"


def folded(text):
    """{stack: ns}, the functions only."""
    rows = collections.Counter()
    for line in text.splitlines():
        stack, value = line.rsplit(" ", 1)
        rows[stack] += int(value)
    return rows


def wanted_folded(mades, service):
    rows = collections.Counter()
    for made in mades:
        for stack, values in made.sums[service].items():
            rows[tuple(name for name, _, _ in stack)] += values[1]
    return rows


def test_flame_is_the_sum_of_what_was_sent(filled, tmp_path):
    cluster, nodes, store = filled
    for service in ("shop", "cart"):
        text = fleet("flame", "--server", cluster.url, "--service", service, "-o", "-", "-f", "collapsed", "-q")
        names = collections.Counter()
        for stack, value in folded(text).items():
            frames = [re.sub(r" \(.*", "", f) for f in stack.split(";")]
            names[tuple(frames[-(len(frames) - frames.index("<module>")):])] += value
        assert names == wanted_folded([n[2] for n in nodes], service)
    # as the store itself adds up
    assert folded(fleet("flame", "--store", store, "--service", "shop", "-o", "-", "-f", "collapsed", "-q")).total() == folded(text_of(cluster, "shop")).total()


def text_of(cluster, service, *args):
    return fleet("flame", "--server", cluster.url, "--service", service, "-o", "-", "-f", "collapsed", "-q", *args)


@pytest.mark.parametrize("query, takes", [
    ('{service_name="shop"}', lambda s, n, z: s == "shop"),
    ('{zone="a", service_name!="cart"}', lambda s, n, z: z == "a" and s != "cart"),
    ('{node=~"node-[0-2]"}', lambda s, n, z: n < "node-3"),
    ('{zone!~"a|c", nothing=""}', lambda s, n, z: z == "b"),
    ('{service_name="sh\'op\\\\"}', lambda s, n, z: False),
])
def test_queries(filled, query, takes):
    cluster, nodes, store = filled
    total = sum(made.total(service)[0] for node, zone, made in nodes for service in ("shop", "cart") if takes(service, node, zone))
    if not total:
        assert "no profile of that time" in fleet("top", "--server", cluster.url, "--query", query, code=4)
        return
    top = json.loads(fleet("top", "--server", cluster.url, "--query", query, "--json", "-n", "0"))
    same = json.loads(fleet("top", "--store", store, "--query", query, "--json", "-n", "0"))
    assert top["calls"] == same["calls"] == total
    def rows(t):
        return sorted((r["function"], r["calls"], r["self_ns"], r["total_ns"]) for r in t["rows"])
    assert rows(top) == rows(same)


def test_services_and_times(filled):
    cluster, nodes, store = filled
    def rows(*args):
        return {r["service"]: (r["profiles"], r["first"], r["last"]) for r in json.loads(fleet("services", *args, "--json"))}
    assert rows("--server", cluster.url) == rows("--store", store) and set(rows("--server", cluster.url)) == {"shop", "cart"}
    assert rows("--server", cluster.url, "--since", "3h", "--until", "2h") == {}
    table = fleet("services", "--server", cluster.url)
    assert re.search(r"^shop +48 +- ", table, re.M)


def test_two_zones_compared(filled):
    cluster, nodes, store = filled
    query = ("--query", '{zone="a"}', "--before-query", '{zone="b"}', "--json", "-n", "0")
    there, here = (json.loads(fleet("diff", *where, *query)) for where in (("--server", cluster.url), ("--store", store)))
    for row in there["rows"] + here["rows"]:
        del row["line"]  # of the function: the engine has lines of frames
    for answer in (there, here):
        answer["rows"].sort(key=str)  # there are ties
    assert there == here and there["rows"]
    assert "diff wants --before-since" in fleet("diff", "--server", cluster.url, code=2)


@pytest.mark.parametrize("period_ms", [0, 2000])
def test_simulated_agents(period_ms, cluster, tmp_path):
    """Fifty agents with the exporter, the sink and the requests of real ones: the graph is their sum, stack by stack. With a pace what they
    send is put together before, and each push is as long as it took from when it was due."""
    urls = " ".join(shard.url for shard in cluster.shards)
    wanted = simulated.run("clickhouse=" + urls, 50, 2, tmp_path / "sums", period_ms=period_ms)
    for service in sorted(wanted):
        assert fleet_sums.asked(text_of(cluster, service, "--since", "2h")) == {stack: ns for stack, (_, ns) in wanted[service].items()}, service
        top = json.loads(fleet("top", "--server", cluster.url, "--service", service, "--since", "2h", "--json", "-n", "0"))
        assert top["calls"] == sum(samples for samples, _ in wanted[service].values())


def test_a_shard_is_down(cluster, tmp_path):
    """The whole is refused, a part is given when asked for, and is called one."""
    made = [windows.hour(tmp_path / str(i), minutes=2, node="node-%d" % i) for i in range(12)]
    for i in range(12):
        assert send(tmp_path / str(i), "clickhouse=" + cluster.url).owed == 0
    cluster.settle(rows_of(*made))
    there = {row[0] for row in cluster.shards[1].sql("SELECT DISTINCT node FROM profiles_local")}
    cluster.shards[1].kill()
    assert there and "the server answered" in fleet("top", "--server", cluster.url, code=6)
    part = json.loads(fleet("top", "--server", cluster.url, "--partial", "--json"))
    assert part["calls"] == sum(m.total(s)[0] for i, m in enumerate(made) for s in ("shop", "cart") if "node-%d" % i not in there)


def test_servers_that_are_none(tmp_path):
    assert "does not answer" in fleet("top", "--server", "http://127.0.0.1:1", code=6)
    with double.Double(lambda request: (200, {}, b"<html>")) as server:
        assert "not understood" in fleet("top", "--server", server.url, code=2)
    with double.Double(lambda request: (200, {}, b"\xff" * 64)) as server:
        assert "not understood" in fleet("services", "--server", server.url, code=2)
