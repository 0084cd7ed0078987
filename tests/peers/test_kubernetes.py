# SPDX-License-Identifier: Apache-2.0
"""deploy/kubernetes on a real node: the DaemonSet with five capabilities, pods of three versions of Python, Parca and ClickHouse.

The tests of this file share one node and stand in the order of a life: installed, used, upgraded, disturbed, removed."""
import collections
import contextlib
import gzip
import json
import os
import pathlib
import re
import shutil
import subprocess
import time

import pytest

import clickhouse
import node as nodes
import parca
import peers
import pods
from protobuf import Pprof

ROOT = pathlib.Path(__file__).resolve().parents[2]
KUSTOMIZE = ROOT / "deploy/kubernetes"
FIVE = {"BPF": 39, "PERFMON": 38, "SYS_PTRACE": 19, "DAC_READ_SEARCH": 2, "CHECKPOINT_RESTORE": 40}
PORT = 7099
MASK = sum(1 << bit for bit in FIVE.values())
# A pod's function is called as nothing else is.
PROGRAM = """
import time
def %(function)s():
    end = time.perf_counter() + 0.02
    while time.perf_counter() < end:
        sum(range(100))
def main():
    while True:
        %(function)s()
        time.sleep(0.04)
main()
"""
WORK = (("shop", "web"), ("shop", "worker"), ("payments", "api"))

pytestmark = [pytest.mark.slow, pytest.mark.needs_root, pytest.mark.alone]


class Cluster:
    """The node with its pods; what tests ask it."""

    def __init__(self, node, folder):
        self.node, self.kubectl, self.get, self.folder = node, node.kubectl, node.get, folder

    def agents(self):
        found = self.get("pods", "-n", "pyebpf", "-l", "app.kubernetes.io/name=pyebpf-agent")["items"]
        return [p for p in found if not p["metadata"].get("deletionTimestamp")]

    def agent(self):
        (pod,) = self.agents()
        return pod

    def apply(self, folder):
        """As it is, but that samples are not spared: a machine for tests has more to do than the agent may look at by 1 %."""
        top = self.folder / folder.replace("/", "-")
        top.mkdir(exist_ok=True)
        patch = [{"op": "add", "path": "/spec/template/spec/containers/0/env/-", "value": {"name": name, "value": value}}
                 for name, value in (("PYEBPF_MAX_CPU", "100"), ("PYEBPF_RATE", "99"), ("PYEBPF_WINDOW", "10s"), ("PYEBPF_POD_LABEL", "team"))]
        (top / "kustomization.yaml").write_text(json.dumps({
            "resources": [os.path.relpath(KUSTOMIZE / folder, top)],
            "patches": [{"target": {"kind": "DaemonSet", "name": "pyebpf-agent"}, "patch": json.dumps(patch)}]}))
        self.kubectl("apply", "-k", top)

    def rolled_out(self):
        self.kubectl("-n", "pyebpf", "rollout", "status", "daemonset/pyebpf-agent", "--timeout=150s")

    def plugin(self, *args, **options):
        return self.node.run(ROOT / "deploy/kubectl-pyebpf", *args, check=False, **options)

    def fleet(self, *args):
        done = self.plugin("fleet", nodes.NAME, "--", *args, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["rows"] if "rows" in done.stdout else json.loads(done.stdout)

    def pid(self, pod):
        """Of a pod's first process, by the machine's numbers."""
        container = pod["status"]["containerStatuses"][0]["containerID"].rpartition("/")[2]
        (row,) = [line.split() for line in self.node.ctr("tasks", "ls").stdout.splitlines() if line.startswith(container)]
        return int(row[1])

    def status(self, pid):
        return dict(line.split(":\t", 1) for line in pathlib.Path("/proc/%d/status" % pid).read_text().splitlines())

    def windows(self):
        """{file name: bytes} in the node's store."""
        return {p.name: p.stat().st_size for p in (self.node.w / "store/store").glob("*.pb.gz")}

    def profiles(self, names):
        for name in names:
            yield Pprof((self.node.w / "store/store" / name).read_bytes())


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    done = subprocess.run([ROOT / "scripts/package", "--out", tmp_path_factory.mktemp("image"), "image"], stdout=subprocess.PIPE, check=True,
                          encoding="utf-8", timeout=1200)
    return pathlib.Path(done.stdout.strip())


@pytest.fixture(scope="module")
def shard(tmp_path_factory):
    """A ClickHouse server that does not run yet, with the login of the overlay."""
    ports = {name: clickhouse.free_port() for name in ("http", "tcp", "inter")}
    one = clickhouse.Shard(tmp_path_factory.mktemp("clickhouse"), ports, "", "127.0.0.1", "127.0.0.1")
    users, config = one.folder / "users.xml", one.folder / "config.xml"
    users.write_text(users.read_text().replace("agent>", "pyebpf>"))
    config.write_text(re.sub("<remote_servers>.*</remote_servers>", "", config.read_text()))
    yield one
    one.kill()


@pytest.fixture(scope="module")
def cluster(image, shard, tmp_path_factory):
    kubeall = peers.need("kubeall")
    if nodes.missing():
        pytest.skip(nodes.missing())
    folder = tmp_path_factory.mktemp("node")
    images = [pods.make(name, tmp_path_factory.mktemp("python")) for name in pods.choose()]
    with nodes.Node(kubeall, folder / "node", {"pyebpf/clickhouse": shard.url.partition("//")[2]}) as node:
        node.load(image)
        for archive, _, _ in images:
            node.load(archive)
        for (namespace, name), (_, reference, _) in zip(WORK, images):
            node.kubectl("create", "namespace", namespace, check=False)
            node.kubectl("apply", "-f", "-", input=pods.manifest(
                name, namespace, reference, PROGRAM % {"function": "busy_" + name},
                {"app.kubernetes.io/name": name, "team": "blue"}))
        yield Cluster(node, folder)


def test_the_base_is_ready_with_five_capabilities_and_nothing_else(cluster):
    cluster.apply("base")
    cluster.rolled_out()
    status = cluster.status(cluster.pid(cluster.agent()))
    assert int(status["CapPrm"], 16) | int(status["CapEff"], 16) == MASK
    assert int(status["CapBnd"], 16) & ~MASK == 0 and int(status["CapAmb"], 16) == int(status["CapInh"], 16) == 0
    assert (status["Seccomp"].strip(), status["NoNewPrivs"].strip()) == ("2", "1")
    assert set(status["Uid"].split()) == {"0"}
    assert cluster.windows()


# --- used ---

def labels_of(name):
    """Of a window's file: its comments."""
    parts = dict(c.partition("=")[::2] for c in name.comments if c.startswith("label: "))
    return {k[len("label: "):]: v for k, v in parts.items()}


def test_names_of_pods_are_right_on_every_profile(cluster):
    """Each pod runs a function of its own: it is in its profiles, and in none else."""
    wanted = {"busy_" + name: (namespace, name) for namespace, name in WORK}

    def found():
        seen = collections.defaultdict(set)
        for profile in cluster.profiles(cluster.windows()):
            functions = {frame[0].rpartition(".")[2] for stack in profile.stacks for frame in stack} & set(wanted)
            for function in functions:
                labels = labels_of(profile)
                seen[function].add((labels.get("namespace"), labels.get("pod"), labels.get("container"), labels.get("team"), labels.get("node")))
        return seen if set(seen) == set(wanted) else None
    seen = nodes.until(found, "a window with the three pods", 60)
    assert {f: s for f, s in seen.items()} == {f: {(ns, name, "main", "blue", nodes.NAME)} for f, (ns, name) in wanted.items()}


@pytest.mark.parametrize("namespace, name", WORK)
def test_a_trace_of_a_pod(cluster, tmp_path, namespace, name):
    out = tmp_path / "trace.json.gz"
    done = cluster.plugin("trace", name, "-n", namespace, "-d", "1s", "-o", out)
    assert done.returncode == 0, done.stderr
    profile = json.loads(gzip.decompress(out.read_bytes()))
    text = json.dumps(profile)
    assert "busy_" + name in text and not [n for _, n in WORK if n != name and "busy_" + n in text]
    assert len({t["pid"] for t in profile["threads"]}) == 1


def test_other_looks_into_a_pod(cluster, tmp_path):
    def well(*args, **options):
        done = cluster.plugin(*args, **options)
        assert done.returncode == 0, done.stderr
        return done.stdout
    folded = tmp_path / "x.folded"
    well("record", "shop/web", "-d", "1s", "-o", folded, "--", "-r", "199")
    assert re.search(r"main.*;busy_web", folded.read_text())
    assert "main" in well("dump", "pod/web", "-n", "shop")
    rows = well("list", "api", "--namespace", "payments").splitlines()
    assert len(rows) == 2 and "3." in rows[1]
    assert "busy_worker" in well("top", "worker", "-n", "shop", "--", "-d", "1s", "--once")
    assert "cap_bpf" in well("doctor", nodes.NAME) and "window" in well("status", nodes.NAME)


def test_what_the_plugin_refuses(cluster, tmp_path):
    there = tmp_path / "there.json"
    there.write_text("mine")
    for args, code, says in (((), 2, "usage"), (("trace",), 2, "which pod"), (("dance", "x"), 2, "dance"), (("trace", "x", "--nope"), 2, "nope"),
                             (("trace", "nosuch", "-n", "shop"), 3, "not found"), (("trace", "web", "-n", "shop", "-c", "nosuch"), 3, "nosuch"),
                             (("doctor", "nosuch"), 3, "no agent runs on node nosuch"),
                             (("trace", "web", "-n", "shop", "-o", there), 6, "exists"), (("trace", "web", "-n", "shop", "-o", "x.what"), 2, "x.what")):
        done = cluster.plugin(*args)
        assert done.returncode == code and says in done.stderr, (args, done.stderr)
    assert there.read_text() == "mine" and not list(tmp_path.glob("*.part*"))


# --- sinks ---

def in_parca(cluster, selector):
    """Functions, through the service's address, as a person has it behind kubectl port-forward."""
    url = "http://%s:7070" % cluster.get("service", "-n", "pyebpf", "parca")["spec"]["clusterIP"]
    with cluster.node.net(), contextlib.suppress(OSError):
        stacks = parca.sums(url, "process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta" + selector)
        return {frame[0].rpartition(".")[2] for stack in stacks for frame in stack}
    return set()


def test_the_quickstart_shows_every_pod_in_parca(cluster, tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    shutil.copy(peers.need("parca"), root / "parca")
    cluster.node.load(nodes.make_image("ghcr.io/parca-dev/parca:v0.28.0", root, tmp_path / "parca.tar", ["/parca"]))
    cluster.apply("overlays/quickstart")
    cluster.rolled_out()
    cluster.kubectl("-n", "pyebpf", "rollout", "status", "deployment/parca", "--timeout=120s")
    for namespace, name in WORK:
        selector = '{namespace="%s",pod="%s"}' % (namespace, name)
        functions = nodes.until(lambda selector=selector: in_parca(cluster, selector), "%s in Parca" % name, 90)
        assert "busy_" + name in functions and not {"busy_" + n for _, n in WORK if n != name} & functions


def sums(cluster, names):
    """{(service, type): sum} of windows of samples, as they lie in the store."""
    out = collections.Counter()
    for profile in cluster.profiles(names):
        labels = labels_of(profile)
        for i, kind in enumerate(profile.types):
            out[labels["service_name"], "/".join(kind)] += sum(values[i] for values in profile.stacks.values())
    return +out


def taken(shard):
    rows = shard.sql("SELECT service, type, sum(arraySum(values)) FROM profiles FINAL GROUP BY service, type")
    return +collections.Counter({(service, kind): int(value) for service, kind, value in rows})


def in_clickhouse(cluster, shard):
    """It has what the store has, and nothing else."""
    def same():
        with cluster.node.net():
            got = taken(shard)
        return got if got == sums(cluster, cluster.windows()) else None
    return nodes.until(same, "the store's sums in ClickHouse", 60)


def test_clickhouse_has_what_the_store_has(cluster, shard):
    with cluster.node.net():
        shard.start()
        nodes.until(shard.is_ready, "ClickHouse", 60)
        for statement in clickhouse.statements((ROOT / "deploy/clickhouse/schema.sql").read_text()):
            shard.sql(statement)
    cluster.kubectl("-n", "pyebpf", "create", "secret", "generic", "pyebpf-sinks", "--from-literal=clickhouse-password=pass word")
    cluster.apply("overlays/clickhouse")
    cluster.rolled_out()
    assert in_clickhouse(cluster, shard)


def test_the_flame_graph_of_the_dashboard(cluster, shard):
    """Its statement on the real server: a tree in the panel's form, whose root is the sum of all."""
    board = json.loads((KUSTOMIZE / "overlays/clickhouse/flame-graph.json").read_text())
    (panel,) = [p for p in board["panels"] if p["type"] == "flamegraph"]
    text = panel["targets"][0]["rawSql"]
    now = int(time.time() * 1000)
    for name, value in (("$__from", now - 3600000), ("$__to", now + 60000), ("${type}", "cpu/nanoseconds"), ("${service:singlequote}", "'web'")):
        assert name in text
        text = text.replace(name, str(value))
    with cluster.node.net():
        rows = [(int(level), int(value), int(own), label) for level, value, own, label in shard.sql(text)]
        total = sum(v for (service, kind), v in taken(shard).items() if (service, kind) == ("web", "cpu/nanoseconds"))
    assert rows[0][0] == 0 and rows[0][3] == "all" and abs(rows[0][1] - total) <= total / 20 and total
    assert sum(own for _, _, own, _ in rows) == rows[0][1]
    assert any("busy_web" in label for *_, label in rows)
    for above, row in zip(rows, rows[1:]):
        assert row[0] <= above[0] + 1, "a child stands below its parent"


# --- disturbed: what was taken is not lost ---

def new_windows(cluster, before, seconds=90):
    return nodes.until(lambda: set(cluster.windows()) - set(before), "new windows", seconds)


def test_a_rolling_update_loses_nothing(cluster, shard):
    before, old = cluster.windows(), cluster.agent()["metadata"]["name"]
    cluster.kubectl("-n", "pyebpf", "rollout", "restart", "daemonset/pyebpf-agent")
    cluster.rolled_out()
    assert cluster.agent()["metadata"]["name"] != old
    assert set(before) < set(cluster.windows()) and in_clickhouse(cluster, shard)


def test_a_deleted_pod_comes_back(cluster, shard):
    before = cluster.windows()
    cluster.kubectl("-n", "pyebpf", "delete", "pod", cluster.agent()["metadata"]["name"], "--grace-period=0", "--force")
    nodes.until(lambda: cluster.agents(), "another agent", 60)
    cluster.rolled_out()
    assert set(before) <= set(cluster.windows()) and new_windows(cluster, before) and in_clickhouse(cluster, shard)


def test_an_outage_of_the_api_server(cluster, shard):
    """The agent goes on, with the names it knows."""
    before = cluster.windows()
    pid = cluster.pid(cluster.agent())
    cluster.node.end("apiserver", force=True)
    try:
        nodes.until(lambda: pathlib.Path("/proc/%d" % pid).exists() and set(cluster.windows()) - set(before), "a window without API", 90)
    finally:
        cluster.node.start_apiserver()
    fresh = [labels_of(p) for p in cluster.profiles(set(cluster.windows()) - set(before))]
    assert {"web", "worker", "api"} <= {labels.get("pod") for labels in fresh}
    assert in_clickhouse(cluster, shard) and cluster.pid(cluster.agent()) == pid


def test_a_restart_of_the_node(cluster, shard):
    """As when its power fails: all that had been written is there, and all of it is sent."""
    before = cluster.windows()
    cluster.node.crash()
    cluster.node.start_containerd()
    cluster.node.start_kubelet()
    nodes.until(cluster.node.is_ready, "the node", 60)
    assert set(before) <= set(cluster.windows()) and new_windows(cluster, before) and in_clickhouse(cluster, shard)


# --- what is missing ---

@pytest.fixture(scope="module")
def crippled(cluster):
    """{capability: pod's name}: the agent's pod five times, each without one of the five."""
    cluster.apply("base")
    made = {}
    template = cluster.get("daemonset", "-n", "pyebpf", "pyebpf-agent")["spec"]["template"]
    for capability in FIVE:
        name = "without-" + capability.lower().replace("_", "-")
        spec = json.loads(json.dumps(template["spec"]))
        spec["containers"][0]["securityContext"]["capabilities"]["add"] = [c for c in FIVE if c != capability]
        spec["restartPolicy"] = "Always"
        spec["volumes"] = [v if "hostPath" not in v else {"name": v["name"], "emptyDir": {}} for v in spec["volumes"]]
        for probe in ("startupProbe", "livenessProbe"):
            spec["containers"][0].pop(probe)
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "pyebpf"}, "spec": spec}
        cluster.kubectl("apply", "-f", "-", input=json.dumps(pod))
        made[capability] = name
    yield made
    cluster.kubectl("-n", "pyebpf", "delete", "pod", "--ignore-not-found", "--wait=true", "--grace-period=1", *made.values())


def says(cluster, name):
    """What /readyz answers, or with what the agent ended."""
    pod = cluster.get("pod", "-n", "pyebpf", name)
    status = (pod["status"].get("containerStatuses") or [{}])[0]
    for state in (status.get("state", {}), status.get("lastState", {})):
        if "terminated" in state:
            return state["terminated"].get("message", "")
    if pod["status"].get("podIP"):
        return cluster.node.http("http://%s:%d/readyz" % (pod["status"]["podIP"], PORT))[1].decode()
    return ""


@pytest.mark.parametrize("capability", FIVE)
def test_a_missing_capability_is_named(cluster, crippled, capability):
    name = "cap_" + capability.lower()

    def said():
        text = says(cluster, crippled[capability])
        return text if name in text else None
    text = nodes.until(said, name, 60)
    assert "capabilities: {add: [" in text and capability in text


# --- removed ---

def test_nothing_is_left_but_the_store(cluster):
    cluster.kubectl("delete", "-k", KUSTOMIZE / "overlays/clickhouse", "--ignore-not-found", "--wait=true", "--timeout=120s", timeout=180)
    left = cluster.kubectl("get", "all,configmap,networkpolicy,clusterrole,clusterrolebinding,priorityclass", "-A", "-l", "app.kubernetes.io/part-of=pyebpf",
                           "-o", "name")
    assert not left.strip()
    assert {p.name for p in (cluster.node.w / "store").iterdir()} == {"store"}
