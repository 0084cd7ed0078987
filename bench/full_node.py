# SPDX-License-Identifier: Apache-2.0
"""The DaemonSet's agent, as deploy/kubernetes/base has it, on a real node that is full: 110 pods. Its CPU with its part in the
kernel, its memory, and what it asks of the API server, by the server's own audit log and the bytes of its connections."""
import collections
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests" / name) for name in ("peers", "agent", "e2e", ".")]
import node as nodes  # noqa: E402 pylint: disable=wrong-import-position
import peers  # noqa: E402 pylint: disable=wrong-import-position
import pods  # noqa: E402 pylint: disable=wrong-import-position

PODS = 110  # that is as many as a kubelet takes; the agent's is one of them
BUSY = 10
NEW = 10  # that come and go, for what the API tells of them
# A service: at 5 % of a CPU, or one that waits.
PROGRAM = """
import threading, time
def work():
    end = time.process_time() + %(work)s
    while time.process_time() < end:
        sum(range(100))
def main():
    while True:
        work()
        time.sleep(%(pause)s)
threading.Thread(target=lambda: time.sleep(1e9), daemon=True).start()
main()
"""
AUDIT = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
         "rules": [{"level": "Metadata", "users": ["system:serviceaccount:pyebpf:pyebpf-agent"]}, {"level": "None"}]}


def say(text):
    print(text, file=sys.stderr, flush=True)


class Bench:
    def __init__(self, node):
        self.node = node

    def start(self, names, reference, busy):
        """All at once."""
        items = [json.loads(pods.manifest(name, "default", reference, PROGRAM % ({"work": 0.02, "pause": 0.4} if i < busy else {"work": 0, "pause": 1})))
                 for i, name in enumerate(names)]
        self.node.kubectl("apply", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
        nodes.until(lambda: self.running() >= set(names), "the pods", 480)

    def running(self):
        got = self.node.kubectl("get", "pods", "--field-selector=status.phase=Running", "-o", "jsonpath={.items[*].metadata.name}")
        return set(got.split())

    def agent(self):
        (pod,) = self.node.get("pods", "-n", "pyebpf")["items"]
        return pod

    def metrics(self):
        """{name: value}, the sum where it has labels"""
        text = self.node.http("http://%s:7099/metrics" % self.agent()["status"]["podIP"])[1].decode()
        found = {}
        for name, value in re.findall(r"^(pyebpf_[a-z_]+)(?:\{[^}]*\})? (\S+)$", text, re.M):
            found[name] = found.get(name, 0) + float(value)
        return found

    def processes(self):
        """Of the agent's container: its own, who asks the API, who sends, but those of kubectl exec."""
        container = self.agent()["status"]["containerStatuses"][0]["containerID"].rpartition("/")[2]
        folders = {p.parent for top in nodes.hierarchies() for p in (top / self.node.cgroup).rglob(container + "/cgroup.procs")}
        return sorted({int(pid) for folder in folders for pid in (folder / "cgroup.procs").read_text().split()}), folders

    def memory(self):
        pids, folders = self.processes()
        out = {"processes": len(pids), "rss": 0, "peak": 0, "own": 0, "pss": 0}
        for pid in pids:
            text = pathlib.Path("/proc/%d/status" % pid).read_text()
            for key, field in (("rss", "VmRSS"), ("peak", "VmHWM"), ("own", "RssAnon")):
                out[key] += int(re.search(r"^%s:\s+(\d+)" % field, text, re.M)[1]) * 1024
            rolled = pathlib.Path("/proc/%d/smaps_rollup" % pid).read_text()
            out["pss"] += int(re.search(r"^Pss:\s+(\d+)", rolled, re.M)[1]) * 1024
        for folder in folders:
            for name in ("memory.current", "memory.usage_in_bytes"):
                if (folder / name).exists():
                    stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
                    # as the kubelet and kubectl top count it: without file pages that can go
                    out["cgroup"] = int((folder / name).read_text()) - int(stat.get("total_inactive_file", stat.get("inactive_file", 0)))
        return out

    def received(self):
        """Bytes from the API server on the connections there are now."""
        pid = self.processes()[0][0]
        done = subprocess.run(["nsenter", "--target", str(pid), "--net", "ss", "-tinH", "state", "established", "dst", nodes.IP],
                              stdout=subprocess.PIPE, encoding="utf-8", check=True)
        return {"in": sum(map(int, re.findall(r"bytes_received:(\d+)", done.stdout))),
                "out": sum(map(int, re.findall(r"bytes_sent:(\d+)", done.stdout))), "connections": done.stdout.count("cubic") or done.stdout.count("bytes_acked")}

    def requests(self):
        """{"verb resource, answer": how often} of all that the agent has asked."""
        events = map(json.loads, (self.node.w / "audit.log").read_text().splitlines())
        return collections.Counter("%s %s, %d" % (e["verb"], e["objectRef"]["resource"], e["responseStatus"]["code"]) for e in events
                                   if e["stage"] == "ResponseComplete" or e["verb"] == "watch")


def measure(bench, seconds):
    """From after the first window on: what went before is the start."""
    first = nodes.until(lambda: (lambda m: m if m.get("pyebpf_windows_total") else None)(bench.metrics()), "a window", 200)
    begin, before = time.monotonic(), bench.received()
    time.sleep(seconds)
    last, after = bench.metrics(), bench.received()
    elapsed = time.monotonic() - begin
    grown = {k: last[k] - first.get(k, 0) for k in last}
    return {"seconds": elapsed, "targets": last.get("pyebpf_targets", 0), "pods": last["pyebpf_kube_pods"], "windows": grown["pyebpf_windows_total"],
            "samples": grown["pyebpf_samples_total"], "cpu_pct": grown["pyebpf_agent_cpu_seconds_total"] / elapsed * 100,
            "bpf_pct": grown["pyebpf_bpf_run_seconds_total"] / elapsed * 100, "start_cpu_s": first["pyebpf_agent_cpu_seconds_total"],
            "memory": bench.memory(), "bytes": [before, after]}


def churn(bench, reference):
    """What the API server sends for pods that come and go."""
    before = bench.received()
    names = ["new-%d" % i for i in range(NEW)]
    bench.node.kubectl("delete", "pod", "--wait=true", *["pod-%d" % (PODS - 2 - i) for i in range(NEW)])
    bench.start(names, reference, 0)
    time.sleep(3)
    after = bench.received()
    return {"pods": NEW, "bytes_in": after["in"] - before["in"], "connections": [before["connections"], after["connections"]]}


def inside(node, folder, image, seconds):
    archive, reference, _ = pods.make(pods.choose()[-1], folder / "python")
    node.load(image)
    node.load(archive)
    bench = Bench(node)
    begin = time.monotonic()
    bench.start(["pod-%d" % i for i in range(PODS - 1)], reference, BUSY)
    out = {"started_s": time.monotonic() - begin}
    say("%d pods run after %.0f s" % (PODS - 1, out["started_s"]))
    node.kubectl("apply", "-k", ROOT / "deploy/kubernetes/base")
    node.kubectl("-n", "pyebpf", "rollout", "status", "daemonset/pyebpf-agent", "--timeout=300s", timeout=320)
    nodes.until(lambda: bench.metrics().get("pyebpf_kube_pods", 0) >= PODS, "the names of the pods", 120)
    out["received_list"] = bench.received()
    out["list_bytes"] = len(node.kubectl("get", "--raw", "/api/v1/pods?fieldSelector=spec.nodeName%3D" + nodes.NAME))
    say("measuring for %d s" % seconds)
    out["cost"] = measure(bench, seconds)
    say(json.dumps(out))
    out["churn"] = churn(bench, reference)
    out["requests"] = bench.requests()
    return out


def run(seconds, image=None):
    if nodes.missing():
        raise RuntimeError(nodes.missing())
    kubeall = peers.build("kubeall")
    with tempfile.TemporaryDirectory(prefix="pyebpf-node-") as folder:
        folder = pathlib.Path(folder)
        (folder / "python").mkdir()
        if not image:
            say("building the image")
            image = subprocess.run([ROOT / "scripts/package", "--out", folder, "image"], stdout=subprocess.PIPE, check=True, encoding="utf-8").stdout.strip()
        with nodes.Node(kubeall, folder / "node", audit=AUDIT) as node:
            return inside(node, folder, image, seconds)
