# SPDX-License-Identifier: Apache-2.0
"""deploy/kubernetes and deploy/helm, by the tools of their users: every object is valid by Kubernetes' own schemas, and the chart
makes the same objects as kustomize."""
import json
import pathlib
import re
import subprocess

import pytest
import yaml

import peers
import policies
import schemas

ROOT = pathlib.Path(__file__).resolve().parents[2]
KUSTOMIZE, CHART = ROOT / "deploy/kubernetes", ROOT / "deploy/helm"
FOLDERS = ["base", *sorted("overlays/" + p.name for p in (KUSTOMIZE / "overlays").iterdir())]
FIVE = ["BPF", "CHECKPOINT_RESTORE", "DAC_READ_SEARCH", "PERFMON", "SYS_PTRACE"]


def run(*command, **options):
    return subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", check=False, timeout=120,
                          **options)


def built(folder):
    done = run(peers.need("kustomize"), "build", KUSTOMIZE / folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def rendered(*options):
    done = run(peers.need("helm"), "template", "--kube-version", "1.34.0", "pyebpf", CHART, *options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def objects(text):
    """{(kind, name): object}. The settings' name ends in a hash, by each tool's own rule."""
    text = re.sub(r"\b(pyebpf-agent)-[a-z0-9]{10}\b", r"\1-HASH", text)
    found = [o for o in yaml.safe_load_all(text) if o]
    named = {(o["kind"], o["metadata"]["name"]): o for o in found}
    assert len(named) == len(found)
    for key, one in named.items():
        if key == ("ConfigMap", "pyebpf-agent-HASH"):
            one["data"]["agent.yaml"] = yaml.safe_load(one["data"]["agent.yaml"])
    return named


def agent_pod(named):
    return named["DaemonSet", "pyebpf-agent"]["spec"]["template"]["spec"]


@pytest.fixture(scope="module")
def conform(tmp_path_factory):
    folder, tool = tmp_path_factory.mktemp("schemas"), peers.need("kubeconform")
    if not schemas.write(folder):
        pytest.skip("the module k8s.io/kubernetes, with the schemas, cannot be had")

    def check(text):
        return run(tool, "-strict", "-summary", "-output", "json", "-schema-location",
                   str(folder) + "/{{.ResourceKind}}{{.KindSuffix}}.json", "-", input=text)
    return check


@pytest.mark.parametrize("folder", [*FOLDERS, "cleanup"])
def test_each_object_is_valid(conform, folder):
    text = built(folder)
    done = conform(text)
    summary = json.loads(done.stdout)["summary"]
    assert done.returncode == 0 and summary["valid"] == len(objects(text)) > (7 if folder != "cleanup" else 2), done.stdout


def test_a_wrong_one_is_found(conform):
    """What the test before this one would say of a typing error."""
    for good, bad in (("hostPID", "hostPid"), ("memory: 64Mi", "memory: [64Mi]"), ("drop:", "droop:")):
        text = built("base")
        assert good in text
        assert conform(text.replace(good, bad, 1)).returncode != 0, bad


@pytest.mark.parametrize("folder", FOLDERS)
def test_least_privilege(folder):
    """Of the agent as of what comes with it: nothing of it changes from overlay to overlay."""
    named = objects(built(folder))
    pod = agent_pod(named)
    (container,) = pod["containers"]
    security = container["securityContext"]
    assert sorted(security["capabilities"]["add"]) == FIVE and security["capabilities"]["drop"] == ["ALL"]
    assert (security["privileged"], security["allowPrivilegeEscalation"], security["readOnlyRootFilesystem"]) == (False, False, True)
    assert pod["hostPID"] and "hostNetwork" not in pod and "hostIPC" not in pod
    assert [v["hostPath"]["path"] for v in pod["volumes"] if "hostPath" in v] == ["/var/lib/pyebpf"]
    assert named["ClusterRole", "pyebpf-agent"]["rules"] == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}]
    for (kind, name), one in named.items():
        if kind in ("DaemonSet", "Deployment", "StatefulSet"):
            spec = one["spec"]["template"]["spec"]
            assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
            assert all(c["securityContext"]["capabilities"]["drop"] == ["ALL"] and c["resources"]["limits"]["memory"] for c in spec["containers"])
            if name != "pyebpf-agent":
                assert spec["securityContext"]["runAsNonRoot"] and not spec["automountServiceAccountToken"]
    selected = {one["spec"]["podSelector"]["matchLabels"]["app.kubernetes.io/name"] for (kind, _), one in named.items() if kind == "NetworkPolicy"}
    assert "pyebpf-agent" in selected


def connections():
    """{folder: (what is let through, what is not)}, besides what is the same of all."""
    agent, web, world = policies.pod("pyebpf", "pyebpf-agent"), policies.pod("shop", "web"), policies.outside("192.0.2.7")
    parca, house, grafana = (policies.pod("pyebpf", name) for name in ("parca", "clickhouse", "grafana"))
    dns, api, seen = policies.pod("kube-system", "kube-dns"), policies.outside("10.96.0.1"), policies.pod("observability", "otel-collector")
    watched = policies.pod("monitoring", "prometheus", **{"pyebpf.io/metrics": "allowed"})
    names = [(agent, dns, 53, "UDP"), (agent, dns, 53)]
    always = ([(agent, api, 443), (agent, api, 6443), (watched, agent, 7099)],
              [(web, agent, 7099), (world, agent, 7099), (watched, agent, 22), (agent, web, 8080), (agent, world, 80), (agent, world, 7070),
               (agent, policies.pod("shop", "parca"), 7070), (agent, policies.pod("shop", "clickhouse"), 8123), (agent, web, 4318)])
    own = {"base": (names, [(agent, parca, 7070), (agent, house, 8123), (agent, seen, 4318)]),
           "overlays/airgap": ([], [*names, (agent, parca, 7070)]),
           "overlays/otlp": ([*names, (agent, seen, 4318)], [(agent, seen, 80)]),
           "overlays/quickstart": ([*names, (agent, parca, 7070)], [(web, parca, 7070), (parca, world, 443), (agent, parca, 80)]),
           "overlays/clickhouse": ([*names, (agent, house, 8123), (grafana, house, 8123)],
                                   [(web, house, 8123), (house, world, 443), (agent, house, 9000), (parca, house, 8123)])}
    return {folder: (always[0] + let, always[1] + held) for folder, (let, held) in own.items()}


@pytest.mark.parametrize("folder", FOLDERS)
def test_whom_the_network_policies_let_through(folder):
    let, held = connections()[folder]
    found = [o for (kind, _), o in objects(built(folder)).items() if kind == "NetworkPolicy"]
    got = policies.allowed(found, let + held)
    assert [c for c, one in zip(let, got) if not one] == [] and [c for c, one in zip(held, got[len(let):]) if one] == []


def test_what_cleans_has_no_capability():
    """It may remove what is root's below /var/lib, and nothing else."""
    named = objects(built("cleanup"))
    pod = named["DaemonSet", "pyebpf-cleanup"]["spec"]["template"]["spec"]
    assert {kind for kind, _ in named} == {"Namespace", "NetworkPolicy", "DaemonSet"} and not pod["automountServiceAccountToken"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"} and not [k for k in pod if k.startswith("host")]
    for container in pod["initContainers"] + pod["containers"]:
        security = container["securityContext"]
        assert security["capabilities"] == {"drop": ["ALL"]} and security["readOnlyRootFilesystem"]
        assert not security["allowPrivilegeEscalation"] and not security["privileged"] and container["resources"]["limits"]["memory"]
    assert named["NetworkPolicy", "pyebpf-cleanup"]["spec"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_agent_takes_its_settings(pyebpf, folder, tmp_path):
    """pyebpf itself reads what each ConfigMap gives it."""
    (name,) = [n for kind, n in objects(built(folder)) if kind == "ConfigMap" and n.startswith("pyebpf-agent")]
    file = tmp_path / "agent.yaml"
    file.write_text(yaml.safe_dump(objects(built(folder))["ConfigMap", name]["data"]["agent.yaml"]))
    done = pyebpf("agent", "--check-config", "--config", file)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("folder", ["base", "overlays/otlp", "overlays/airgap"])
def test_the_chart_makes_the_same_objects(folder, tmp_path):
    """With its defaults those of the base, with a file of values those of an overlay."""
    want = objects(built(folder))
    values = ["-f", CHART / "examples" / (pathlib.Path(folder).name + ".yaml")] if folder != "base" else []
    got = objects(rendered(*values))
    assert sorted(got) == sorted(want)
    for key, one in want.items():
        assert got[key] == one, key


def test_the_chart_passes_its_lint(conform):
    done = run(peers.need("helm"), "lint", "--strict", CHART)
    assert done.returncode == 0, done.stdout + done.stderr
    done = conform(rendered("--set", "image.digest=sha256:" + "0" * 64, "--set", "imagePullSecrets[0].name=x", "--set",
                            "seccompProfile.type=Localhost,seccompProfile.localhostProfile=pyebpf/agent.json"))
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("wrong, names", [
    ("image.pullPolicy=Sometimes", "pullPolicy"), ("privileged=true", "privileged"), ("port=70000", "port"),
    ("config.sinks[0].type=parca", "url"), ("config.listen=:1", "listen"), ("updateStrategy.maxUnavailable=0", "maxUnavailable")])
def test_the_chart_refuses_values_that_are_none(wrong, names):
    done = run(peers.need("helm"), "template", "--kube-version", "1.34.0", "pyebpf", CHART, "--set", wrong)
    assert done.returncode != 0 and names in done.stderr, done.stdout[-500:]


def test_versions_agree():
    """The program's is the one of the image that is asked for."""
    version = re.search(r"^project\(pyebpf VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text(), re.M).group(1)
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    cleans = objects(built("cleanup"))["DaemonSet", "pyebpf-cleanup"]["spec"]["template"]["spec"]
    for container in agent_pod(objects(built("base")))["containers"] + cleans["initContainers"] + cleans["containers"]:
        assert container["image"] == "docker.io/library/pyebpf:" + version
    assert chart["version"] == chart["appVersion"] == yaml.safe_load((CHART / "values.yaml").read_text())["image"]["tag"] == version
