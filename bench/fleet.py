# SPDX-License-Identifier: Apache-2.0
"""A fleet and a ClickHouse of three shards on this machine: pushes of simulated agents (fleet_sim: the exporter, sink and requests of real
ones), their sum, a spool that is drained, and a question about an hour of many nodes."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "tests" / name) for name in ("agent", "e2e", "accept", ".")]
import clickhouse  # noqa: E402 pylint: disable=wrong-import-position
import fleet_sums  # noqa: E402 pylint: disable=wrong-import-position
import windows  # noqa: E402 pylint: disable=wrong-import-position

STACKS = 40  # of a service on a node in a minute at 19 Hz
MINUTES = 55
SERVICES_OF_A_NODE = 5


def cpu_s(cluster):
    total = 0
    for shard in cluster.shards:
        fields = pathlib.Path("/proc/%d/stat" % shard.process.pid).read_text().rsplit(")", 1)[1].split()
        total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def timed(cluster, argv):
    """What it says on stdout, with the time and the CPU of the servers."""
    cpu, begin = cpu_s(cluster), time.monotonic()
    done = subprocess.run([str(a) for a in argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", check=False)
    if done.returncode:
        raise RuntimeError("%s: %s" % (argv[0], done.stderr[-500:]))
    return done.stdout, time.monotonic() - begin, cpu_s(cluster) - cpu


def first(process):
    """Servers are machines of their own: before whatever else runs on this one."""
    try:
        pathlib.Path("/proc/%d/autogroup" % process.pid).write_text("-20")
    except OSError:
        pass


def simulate(build, cluster, folder, agents, rounds, period_ms, connections):
    urls = " ".join(shard.url for shard in cluster.shards)
    said, seconds, cpu = timed(cluster, [build / "bench/fleet_sim", "clickhouse=" + urls, agents, rounds, period_ms, STACKS, connections, folder / "sums"])
    return {"agents": agents, "seconds": seconds, "server_cpu_s": cpu, "windows": [json.loads(line) for line in said.splitlines()]}


GATHER = """CREATE TABLE {table}_gather AS {table}_local ENGINE = Buffer(currentDatabase(), {table}_local, 1, 1, 2, 10, 100000, 1000000, 100000000);
DROP TABLE {table}; CREATE TABLE {table} AS {table}_local ENGINE = Distributed(pyebpf, currentDatabase(), {table}_gather, cityHash64(node))"""


def gather(cluster):
    """What async_insert is to servers of today this one has as a table in memory: rows of many pushes become one part. It loses them when it is
    killed, so this is for measuring only."""
    for shard in cluster.shards:
        for table in ("profiles", "stacks"):
            for statement in GATHER.format(table=table).split(";"):
                shard.sql(statement)


def differs(pyebpf, cluster, folder):
    """Stacks whose sum in the cluster is another one than what was sent."""
    wanted, wrong = fleet_sums.read(folder / "sums"), 0
    for service, stacks in wanted.items():
        said = timed(cluster, [pyebpf, "fleet", "flame", "--server", cluster.url, "--service", service, "--since", "3h", "-o", "-", "-f", "collapsed", "-q"])[0]
        got = fleet_sums.asked(said)
        wrong += sum(got[stack] != ns for stack, (_, ns) in stacks.items()) + len(set(got) - set(stacks))
    return {"stacks": sum(map(len, wanted.values())), "wrong": wrong}


def drain(pyebpf, cluster, folder):
    """Windows of an outage of 55 minutes on a node of some services."""
    store = folder / "spool"
    windows.hour(store, services=["service-%d" % i for i in range(SERVICES_OF_A_NODE)], minutes=MINUTES)
    size = sum(f.stat().st_size for f in store.glob("*.pb.gz"))
    _, seconds, cpu = timed(cluster, [pyebpf, "fleet", "send", "--store", store, "--sink", "clickhouse=" + cluster.url])
    return {"windows": MINUTES * SERVICES_OF_A_NODE, "bytes": size, "seconds": seconds, "server_cpu_s": cpu}


ROWS = """INSERT INTO profiles_local SELECT toDateTime({at}), toInt64({at}) * 1000000000, toInt64({at}) * 1000000000 + 60000000000, type, 'asked', node,
['node', 'service_name'], [node, 'asked'], cityHash64(n, {at}), 52631578, arrayMap(i -> cityHash64((i * i + n * 7 + {at}) % 2000), range({stacks})),
arrayMap(i -> toInt64(1 + cityHash64(i, n, {at}) % 20 * if(type = 'samples/count', 1, 52631578)), range({stacks}))
FROM (SELECT number * {shards} + {shard} AS n, concat('node-', toString(n)) AS node,
arrayJoin(['samples/count', 'wall/nanoseconds', 'cpu/nanoseconds']) AS type FROM numbers({nodes}))"""
NAMES = """INSERT INTO stacks_local SELECT 'asked', 'node-0', cityHash64(number), now(),
arrayMap(i -> concat('module.function_', toString(cityHash64(i, number) % 3000)), range(30)), arrayMap(i -> '/srv/module.py', range(30)),
arrayMap(i -> toUInt32(i), range(30)) FROM numbers(2000)"""


def ask(pyebpf, cluster, nodes, minutes=60, stacks=20):
    """One service on all nodes, for an hour; put into the shards by themselves."""
    now, count = int(time.time()) // 60 * 60, len(cluster.shards)
    for number, shard in enumerate(cluster.shards):
        for minute in range(minutes):
            shard.sql(ROWS.format(at=now - (minute + 1) * 60, nodes=nodes // count, shards=count, shard=number, stacks=stacks))
        shard.sql(NAMES)
    _, first, _ = timed(cluster, [pyebpf, "fleet", "top", "--server", cluster.url, "--service", "asked", "--since", "2h", "--json"])
    said, seconds, cpu = timed(cluster, [pyebpf, "fleet", "top", "--server", cluster.url, "--service", "asked", "--since", "2h", "--json"])
    return {"nodes": nodes, "values": int(cluster.sql("SELECT sum(length(stacks)) FROM profiles WHERE service = 'asked'")[0][0]),
            "samples": json.loads(said)["calls"], "first_s": first, "seconds": seconds, "server_cpu_s": cpu}


def run(pyebpf, build, agents=10000, exact=1000, period_s=60):
    build, pyebpf = pathlib.Path(build).resolve(), pathlib.Path(pyebpf).resolve()
    with tempfile.TemporaryDirectory(prefix="pyebpf-bench-") as name:
        folder, out = pathlib.Path(name), {}
        cluster = clickhouse.Cluster(folder / "cluster")
        try:
            cluster.start()
            for shard in cluster.shards:
                first(shard.process)
            out["exact"] = simulate(build, cluster, folder, exact, 2, 0, 32)
            out["exact"].update(differs(pyebpf, cluster, folder))
            out["drain"] = drain(pyebpf, cluster, folder)
            cluster.empty()
            out["query"] = ask(pyebpf, cluster, agents)
            cluster.empty()
            # three windows, put together before the first begins: in that each agent tells the names of its stacks
            out["paced"] = simulate(build, cluster, folder, agents, 3, period_s * 1000, 256)
            cluster.empty()
            gather(cluster)
            out["gathered"] = simulate(build, cluster, folder, agents, 3, period_s * 1000, 256)
        finally:
            cluster.stop()
    return out
