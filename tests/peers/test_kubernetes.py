# SPDX-License-Identifier: Apache-2.0
"""deploy/kubernetes on a real node: the DaemonSet with five capabilities, pods of three versions of Python, Parca and ClickHouse.

The tests of this file share one node and stand in the order of a life: installed, used, upgraded, disturbed, removed."""
import base64
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
import yaml

import browser
import clickhouse
import node as nodes
import parca
import peers
import pods
import policies
import test_otlp
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

    def apply(self, folder, *components):
        """As it is, but that samples are not spared: a machine for tests has more to do than the agent may look at by 1 %."""
        top = self.folder / "-".join([folder, *components]).replace("/", "-")
        top.mkdir(exist_ok=True)
        patch = [{"op": "add", "path": "/spec/template/spec/containers/0/env/-", "value": {"name": name, "value": value}}
                 for name, value in (("PYEBPF_MAX_CPU", "100"), ("PYEBPF_RATE", "99"), ("PYEBPF_WINDOW", "10s"), ("PYEBPF_POD_LABEL", "team"))]
        (top / "kustomization.yaml").write_text(json.dumps({
            "resources": [os.path.relpath(KUSTOMIZE / folder, top)],
            "components": [os.path.relpath(KUSTOMIZE / "components" / name, top) for name in components],
            "patches": [{"target": {"kind": "DaemonSet", "name": "pyebpf-agent"}, "patch": json.dumps(patch)}]}))
        self.kubectl("apply", "-k", top)

    def rolled_out(self):
        self.kubectl("-n", "pyebpf", "rollout", "status", "daemonset/pyebpf-agent", "--timeout=150s")

    def said(self):
        """For whoever has to find out why a test failed; the API server may be down."""
        texts = [self.kubectl("-n", "pyebpf", *args, check=False) for args in (
            ("describe", "pods"), ("logs", "--prefix", "--tail=30", "-l", "app.kubernetes.io/name=pyebpf-agent"),
            ("logs", "--prefix", "--tail=30", "--previous", "-l", "app.kubernetes.io/name=pyebpf-agent"))]
        return "\n".join([*texts, self.node.ctr("tasks", "ls", check=False).stdout, self.node.said()])

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


def windows_of(cluster, name):
    return {n for n in cluster.windows() for p in cluster.profiles([n]) if labels_of(p).get("pod") == name}


def test_a_pod_that_is_kept_out_is_not_even_sampled(cluster):
    """By its annotation, while it runs; and again in, when that is taken away."""
    def status():
        done = cluster.plugin("status", nodes.NAME, "--", "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)
    before = status().get("samples_excluded_total", 0)
    cluster.kubectl("-n", "shop", "annotate", "pod", "worker", "pyebpf.io/enabled=false")
    # 99 Hz, a third of the time on a CPU: a window's worth of ticks that took no stack
    nodes.until(lambda: status()["samples_excluded_total"] > before + 50, "ticks that were left out", 90)
    first, quiet, all_windows = status(), windows_of(cluster, "worker"), set(cluster.windows())
    nodes.until(lambda: status()["windows_total"] >= first["windows_total"] + 2, "windows", 90)
    last, fresh = status(), set(cluster.windows()) - all_windows
    # the window that was open when it was told
    assert len(windows_of(cluster, "worker") - quiet) <= 1
    assert last["samples_excluded_total"] > first["samples_excluded_total"] and {"web", "api"} <= {
        labels_of(p).get("pod") for p in cluster.profiles(fresh)}
    quiet = windows_of(cluster, "worker")
    cluster.kubectl("-n", "shop", "annotate", "pod", "worker", "pyebpf.io/enabled-")
    nodes.until(lambda: windows_of(cluster, "worker") - quiet, "a window of the pod", 90)


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


def web(shard):
    """CPU time of one of the pods, as it is now."""
    return taken(shard)["web", "cpu/nanoseconds"]


def in_clickhouse(cluster, shard):
    """It has what the store has, and nothing else."""
    def same():
        with cluster.node.net():
            got = taken(shard)
        return got if got == sums(cluster, cluster.windows()) else None
    return nodes.until(same, "the store's sums in ClickHouse", 60)


COLLECTOR = """
apiVersion: v1
kind: Namespace
metadata: {name: observability}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: otel-collector, namespace: observability}
data:
  c.yaml: |
    receivers: {otlp: {protocols: {http: {endpoint: "0.0.0.0:4318"}}}}
    exporters: {file: {path: /out/profiles.json, flush_interval: 100ms}}
    service: {telemetry: {metrics: {level: none}}, pipelines: {profiles: {receivers: [otlp], exporters: [file]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: otel-collector, namespace: observability, labels: {app: otel-collector}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
    - name: collector
      image: local.test/otelcol:1
      imagePullPolicy: Never
      args: [--config, /etc/otel/c.yaml, --feature-gates=service.profilesSupport]
      ports: [{name: http, containerPort: 4318}]
      readinessProbe: {tcpSocket: {port: http}, periodSeconds: 1}
      volumeMounts: [{name: config, mountPath: /etc/otel}, {name: out, mountPath: /out}]
  volumes:
    - {name: config, configMap: {name: otel-collector}}
    - {name: out, hostPath: {path: %s, type: DirectoryOrCreate}}
---
apiVersion: v1
kind: Service
metadata: {name: otel-collector, namespace: observability}
spec: {selector: {app: otel-collector}, ports: [{name: http, port: 4318, targetPort: http}]}
"""


def in_collector(file):
    """({(service, type): sum}, {function: pods}) of what the collector has written."""
    found, functions = collections.Counter(), collections.defaultdict(set)
    lines = file.read_text().splitlines(True) if file.exists() else []
    for line in (json.loads(text) for text in lines if text.endswith("\n")):
        tables = test_otlp.Tables(line["dictionary"])
        for resource in line["resourceProfiles"]:
            names = tables.resource(resource["resource"])
            for profile in resource["scopeProfiles"][0]["profiles"]:
                for sample in profile["samples"]:
                    found[names["service.name"], "/".join(tables.kind(profile["sampleType"]))] += sum(map(int, sample["values"]))
                    for frame in tables.stack(sample):
                        functions[frame[0].rpartition(".")[2]].add((names.get("k8s.namespace.name"), names.get("k8s.pod.name")))
    return +found, functions


def test_a_collector_under_a_list_of_system_calls_of_our_own(cluster, tmp_path):
    """The overlay otlp, with the component localhost-seccomp: the real collector has what the store has."""
    root, out = tmp_path / "root", tmp_path / "out"
    root.mkdir()
    shutil.copy(peers.need("otelcol"), root / "otelcol")
    cluster.node.load(nodes.make_image("local.test/otelcol:1", root, tmp_path / "otelcol.tar", ["/otelcol"]))
    cluster.kubectl("apply", "-f", "-", input=COLLECTOR % out)
    profile = KUSTOMIZE / "components/localhost-seccomp/pyebpf-agent.json"
    there = cluster.node.w / "kubelet/seccomp/pyebpf"
    there.mkdir(parents=True)
    shutil.copy(profile, there)
    cluster.apply("overlays/otlp", "localhost-seccomp")
    cluster.rolled_out()
    container = cluster.agent()["status"]["containerStatuses"][0]["containerID"].rpartition("/")[2]
    filtered = json.loads(cluster.node.ctr("containers", "info", container).stdout)["Spec"]["linux"]["seccomp"]
    wanted = json.loads(profile.read_text())
    assert filtered["defaultAction"] == wanted["defaultAction"] and not {"ptrace", "process_vm_writev", "mount"} & set(filtered["syscalls"][0]["names"])
    assert [set(s["names"]) for s in filtered["syscalls"]] == [set(s["names"]) for s in wanted["syscalls"]]

    def same():
        got, functions = in_collector(out / "profiles.json")
        return functions if got and got == sums(cluster, cluster.windows()) else None
    functions = nodes.until(same, "the store's sums in the collector", 90)
    assert {f: functions["busy_" + f] for _, f in WORK} == {name: {(namespace, name)} for namespace, name in WORK}
    # what a person does in there works by these calls, too
    for command in (["trace", "shop/web", "-d", "1s", "-o", tmp_path / "x.json"], ["record", "shop/web", "-d", "1s", "-o", tmp_path / "x.folded"],
                    ["dump", "shop/web"], ["list", "shop/web"], ["top", "shop/web", "--", "-d", "1s", "--once"],
                    ["fleet", nodes.NAME, "--", "services"]):
        done = cluster.plugin(*command)
        assert done.returncode == 0, (command, done.stderr)
    assert "busy_web" in (tmp_path / "x.folded").read_text() and "busy_web" in (tmp_path / "x.json").read_text()
    cluster.kubectl("delete", "namespace", "observability", "--wait=false")


def met_by_policies(cluster, there):
    """What a reader of the cluster's policies says of connections from the agent to services that there are."""
    services = {s["spec"]["clusterIP"]: s for s in cluster.get("services", "-A")["items"]}
    agent = policies.pod("pyebpf", cluster.agent()["metadata"]["labels"])
    targets = []
    for address, port in sorted(there):
        service = services[address]["spec"]
        behind = policies.pod("pyebpf", service["selector"]) if "selector" in service else policies.outside(address)
        targets.append((agent, behind, port))
    found = cluster.get("networkpolicies", "-A")["items"]
    return bool(found) and all(policies.allowed(found, targets))


def test_a_cluster_without_a_way_out(cluster):
    """The overlay airgap: no image is pulled, nothing but the API server is asked, profiles stay on the node and are asked for there."""
    cluster.apply("overlays/airgap")
    cluster.rolled_out()
    agent, before, met = cluster.agent(), cluster.windows(), set()
    assert {c["imagePullPolicy"] for c in agent["spec"]["containers"]} == {"Never"}

    def windows():
        met.update(agents_peers(cluster)[0])
        return set(cluster.windows()) - set(before)
    nodes.until(windows, "new windows", 90)
    assert met == {(nodes.IP, 443)} and met_by_policies(cluster, met)
    assert {name for _, name in WORK} <= {row["service"] for row in cluster.fleet("services")}


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


def connections(text):
    """[(own address, own port, the other's, its port)] of all that ss shows, those that ended a moment ago, too."""
    ends = [[end.rpartition(":") for end in line.split()[3:5]] for line in text.splitlines() if not line.startswith("LISTEN")]
    return [(own[0], int(own[2]), peer[0], int(peer[2])) for own, peer in ends]


def agents_peers(cluster):
    """{(address, port)} of those that the agent talks to, and {address} of those that talk to it. Who closes a connection keeps it
    for a minute: that is the node, too."""
    agent = cluster.agent()
    pid, address = cluster.pid(agent), agent["status"]["podIP"]
    text = subprocess.run(["nsenter", "--target", str(pid), "--net", "ss", "-tnaH"], stdout=subprocess.PIPE, encoding="utf-8", check=True).stdout
    inside, outside = connections(text), connections(cluster.node.run("ss", "-tnaH").stdout)
    there = {(peer, port) for _, own_port, peer, port in inside if own_port != PORT}
    return there, ({peer for _, own_port, peer, _ in inside if own_port == PORT}
                   | {own for own, _, peer, port in outside if (peer, port) == (address, PORT)})


def test_all_traffic_of_the_agent_is_what_its_policies_let_through(cluster):
    """Nothing enforces them on this node; a reader of policies says what would be, of connections that there are."""
    wanted, met, came = {(nodes.IP, 443), (cluster.get("service", "-n", "pyebpf", "clickhouse")["spec"]["clusterIP"], 8123)}, set(), set()

    def look():
        there, here = agents_peers(cluster)
        met.update(there)
        came.update(here)
        return wanted <= met and came
    nodes.until(look, "the agent's connections", 60)
    assert met_by_policies(cluster, met), met
    # the node's own address: the kubelet's probes, which policies do not hold off
    assert came == {"10.244.0.1"}


def statement(board, kind):
    """Of the one panel of a kind, with what Grafana puts into it."""
    (panel,) = [p for p in board["panels"] if p["type"] == kind]
    text = panel["targets"][0]["rawSql"]
    now = int(time.time() * 1000)
    for name, value in (("$__from", now - 3600000), ("$__to", now + 60000), ("${type}", "cpu/nanoseconds"), ("${service:singlequote}", "'web'")):
        assert name in text
        text = text.replace(name, str(value))
    assert "$" not in text
    return text


BOARD = KUSTOMIZE / "overlays/clickhouse/flame-graph.json"


def test_the_data_source_of_grafana(cluster, shard):
    """Its server, its user and its password, through the service's address."""
    (source,) = yaml.safe_load((BOARD.parent / "datasource.yaml").read_text())["datasources"]
    data = source["jsonData"]
    service = cluster.get("service", "-n", "pyebpf", "clickhouse")
    assert data["host"] == "clickhouse.pyebpf.svc.cluster.local" and data["port"] in [p["port"] for p in service["spec"]["ports"]]
    (container,) = cluster.get("deployment", "-n", "pyebpf", "grafana")["spec"]["template"]["spec"]["containers"]
    secret = {e["name"]: e["valueFrom"]["secretKeyRef"] for e in container["env"] if "valueFrom" in e}[source["secureJsonData"]["password"].strip("$")]
    kept = cluster.get("secret", "-n", "pyebpf", secret["name"])["data"][secret["key"]]
    url = "%s://%s:%d/?query=%s" % (data["protocol"], service["spec"]["clusterIP"], data["port"], "SELECT+count()+FROM+profiles")
    headers = {"X-ClickHouse-User": data["username"], "X-ClickHouse-Key": base64.b64decode(kept).decode()}
    code, count = nodes.until(lambda: (lambda answer: answer if answer[0] else None)(cluster.node.http(url, headers=headers)), "the service", 30)
    assert code == 200 and int(count) > 0
    assert cluster.node.http(url, headers={**headers, "X-ClickHouse-Key": "wrong"})[0] in (401, 403, 516)
    named = {v["uid"] for v in find(json.loads(BOARD.read_text()), "datasource")}
    assert named == {source["uid"]} and {v["type"] for v in find(json.loads(BOARD.read_text()), "datasource")} == {source["type"]}


def find(where, key):
    """Values of a key, at any depth."""
    if isinstance(where, list):
        for item in where:
            yield from find(item, key)
    if isinstance(where, dict):
        if key in where:
            yield where[key]
        for item in where.values():
            yield from find(item, key)


def test_the_lists_and_lines_of_the_dashboard(cluster, shard):
    board = json.loads(BOARD.read_text())
    assert {p["type"] for p in board["panels"]} == {"timeseries", "flamegraph"}
    lists = {v["name"]: v["query"] for v in board["templating"]["list"]}
    with cluster.node.net():
        kinds, services = ({row[0] for row in shard.sql(lists[name])} for name in ("type", "service"))
        least = web(shard)
        lines = shard.sql(statement(board, "timeseries"))
        most = web(shard)
    assert "cpu/nanoseconds" in kinds and {name for _, name in WORK} <= services
    assert {service for _, service, _ in lines} == {"web"} and len({at for at, *_ in lines}) == len(lines) > 1
    assert 0 < least <= sum(int(value) for *_, value in lines) <= most


def test_the_flame_graph_of_the_dashboard(cluster, shard):
    """Its statement on the real server: a tree in the panel's form, whose root is the sum of all."""
    text = statement(json.loads(BOARD.read_text()), "flamegraph")
    with cluster.node.net():
        least = web(shard)
        rows = [(int(level), int(value), int(own), label) for level, value, own, label in shard.sql(text)]
        most = web(shard)
    assert rows[0][0] == 0 and rows[0][3] == "all" and 0 < least <= rows[0][1] <= most
    assert sum(own for _, _, own, _ in rows) == rows[0][1]
    assert any("busy_web" in label for *_, label in rows)
    for above, row in zip(rows, rows[1:]):
        assert row[0] <= above[0] + 1, "a child stands below its parent"


def test_grafanas_own_panel_draws_it(cluster, shard, tmp_path):
    """The component of Grafana's flame graph panel, in a browser, with the dashboard's own settings and what the server answers."""
    shutil.copy(peers.need("grafana-panel"), tmp_path / "panel.js")
    (tmp_path / "index.html").write_text('<!doctype html><meta charset="utf-8"><div id="root"></div><script src="panel.js"></script>')
    (panel,) = [p for p in json.loads(BOARD.read_text())["panels"] if p["type"] == "flamegraph"]
    names = ["level", "value", "self", "label"]
    with cluster.node.net():
        rows = shard.sql(statement(json.loads(BOARD.read_text()), "flamegraph"))
    with browser.page(tmp_path, "/index.html", "typeof window.show == 'function'") as page:
        table = {"names": names[:3] + ["name"], "rows": rows}
        assert page.run("show(%s, %s)" % (json.dumps(panel), json.dumps(table)))["missingFields"] == ["label"]
        assert page.run("show(%s, %s)" % (json.dumps(panel), json.dumps({"names": names, "rows": rows}))) is None
        page.until("document.body.innerText.includes('busy_web')", browser.DEADLINE_S)
        shown = page.run("document.body.innerText")
        assert "(Time)" in shown and re.search(r"busy_web\n\d[\d.]* (ms|s|mins?)\n\d[\d.]* (ms|s|mins?)\n", shown), shown
        page.picture(pathlib.Path(os.environ.get("PYEBPF_PICTURES", tmp_path)) / "grafana-panel.png")
        assert not browser.threw(page)


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

CLEANUP = KUSTOMIZE / "cleanup"


def test_a_store_in_use_is_not_cleaned(cluster):
    cluster.rolled_out()
    before = set(cluster.windows())
    cluster.kubectl("apply", "-k", CLEANUP)

    def refused():
        found = cluster.get("pods", "-n", "pyebpf-cleanup")["items"]
        for status in found[0]["status"].get("initContainerStatuses", ()) if found else ():
            for state in (status["state"], status["lastState"]):
                if "terminated" in state:
                    return state["terminated"]
        return None
    end = nodes.until(refused, "the end of purge", 60)
    assert end["exitCode"] == 6 and "another pyebpf writes to the store" in end["message"]
    cluster.kubectl("delete", "-k", CLEANUP, "--wait=true", timeout=180)
    assert before <= set(cluster.windows())


def test_nothing_is_left_but_the_store(cluster):
    cluster.kubectl("delete", "-k", KUSTOMIZE / "overlays/clickhouse", "--ignore-not-found", "--wait=true", "--timeout=120s", timeout=180)
    left = cluster.kubectl("get", "all,configmap,networkpolicy,clusterrole,clusterrolebinding,priorityclass", "-A", "-l", "app.kubernetes.io/part-of=pyebpf",
                           "-o", "name")
    assert not left.strip()
    assert {p.name for p in (cluster.node.w / "store").iterdir()} == {"store"}


def test_a_cleaned_node_has_nothing_left(cluster):
    """By the line that docs/kubernetes.md has."""
    assert cluster.windows()
    cluster.kubectl("apply", "-k", CLEANUP)
    cluster.kubectl("-n", "pyebpf-cleanup", "rollout", "status", "ds/pyebpf-cleanup", "--timeout=120s")
    assert not list((cluster.node.w / "store").iterdir())
    cluster.kubectl("delete", "-k", CLEANUP, "--wait=true", "--timeout=120s", timeout=180)
    left = cluster.kubectl("get", "all,configmap,networkpolicy,clusterrole,clusterrolebinding,priorityclass,namespace", "-A", "-l",
                           "app.kubernetes.io/part-of=pyebpf", "-o", "name")
    assert not left.strip()
