# SPDX-License-Identifier: Apache-2.0
"""Pods have their names on profiles: cgroups as each runtime names them, real programs in them, and an API server that goes away, forgets,
lies and comes back."""
import contextlib
import gzip
import hashlib
import itertools
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid

import pytest

import kubeapi
import lib
from limits import refuse_bpf, without
from selected import cgroup, started_in
from test_record import Samples

pytestmark = lib.needs_root

# Most of the time it leaves to others, but before them: a machine may be busy with other tests.
BURN = """
import os, time
def burn():
    end = time.process_time() + 0.01
    while time.process_time() < end:
        pass
os.nice(-5)
while True:
    burn()
    time.sleep(0.03)
"""
NUMBER = itertools.count()


def new_id():
    return hashlib.sha256(b"%d %d" % (os.getpid(), next(NUMBER))).hexdigest()


# How each runtime and each cgroup driver call the cgroup of a container.
FORMS = {
    "containerd-systemd": "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{_uid}.slice/cri-containerd-{id}.scope",
    "containerd-cgroupfs": "kubepods/burstable/pod{uid}/{id}",
    "crio-systemd": "kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{_uid}.slice/crio-{id}.scope",
    "crio-cgroupfs": "kubepods/besteffort/pod{uid}/crio-{id}",
    "docker-systemd": "kubepods.slice/kubepods-pod{_uid}.slice/docker-{id}.scope",
    "docker-cgroupfs": "kubepods/pod{uid}/{id}",
}


@contextlib.contextmanager
def container(form, uid, number):
    """A program in the cgroup of a container."""
    path = FORMS[form].format(uid=uid, _uid=uid.replace("-", "_"), id=number)
    with cgroup("pyebpf-test-%d-%d/%s" % (os.getpid(), next(NUMBER), path)) as inside, \
         lib.started([sys.executable, "-c", BURN], **started_in(inside)) as process:
        yield process


class Agent:
    def __init__(self, folder, api, *options, window="2s"):
        self.folder, self.log = folder, folder / "log"
        self.command = [lib.BINARY, "agent", "--store", folder / "store", "--window", window, "--any-window", "-r", "99", "--max-cpu", "100", "--socket", folder / "socket", "--listen",
                        "", *(api.options() if api else []), *map(str, options)]

    def __enter__(self):
        self.out = self.log.open("w")
        self.process = subprocess.Popen([str(c) for c in self.command], stderr=self.out, preexec_fn=lambda: os.nice(-10))
        lib.until(lambda: self.said("status"), "an answer", 120)
        return self

    def said(self, *words):
        return subprocess.run([lib.BINARY, "agent", *words, "--socket", self.folder / "socket"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              encoding="utf-8", check=False, timeout=120).stdout

    def kube(self):
        return json.loads(self.said("status", "--json"))["kubernetes"]

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(120) == 0, self.log.read_text()
        return self.labels()

    def __exit__(self, *args):
        self.process.kill()
        self.process.wait(30)
        self.out.close()

    def labels(self):
        """Of each profile that is in a container."""
        found = []
        for path in sorted((self.folder / "store").glob("*.pb.gz")):
            labels = dict(s[7:].split("=", 1) for s in strings(gzip.decompress(path.read_bytes())) if s.startswith("label: "))
            if "container_id" in labels:
                found.append(labels)
        return found


def strings(data):
    """Of a pprof file: its fields of number 6."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            at += 1
            value |= (data[at - 1] & 127) << shift
            shift += 7
            if data[at - 1] < 128:
                return value
    while at < len(data):
        key = varint()
        size = varint()
        if key & 7 == 2:
            at += size
            if key >> 3 == 6:
                yield data[at - size:at].decode()


def of(profiles, number):
    return [p for p in profiles if p["container_id"] == number[:12]]


@pytest.fixture
def api(tmp_path):
    (tmp_path / "api").mkdir()
    with kubeapi.Api(tmp_path / "api") as server:
        yield server


def test_every_runtime_and_workload(api, tmp_path):
    workloads = [(("ReplicaSet", "web-6d4cf56db6"), {"pod-template-hash": "6d4cf56db6", "app.kubernetes.io/version": "7.1", "team": "x"}, "Deployment", "web"),
                 (("StatefulSet", "db"), {"app.kubernetes.io/name": "postgres"}, "StatefulSet", "db"),
                 (("DaemonSet", "log"), {}, "DaemonSet", "log"),
                 (("Job", "backup-29412360"), {}, "CronJob", "backup"),
                 (("Job", "once"), {}, "Job", "once"),
                 (None, {}, "Pod", "alone-4")]
    made = []
    with contextlib.ExitStack() as stack:
        for n, (form, (owner, labels, kind, name)) in enumerate(zip(FORMS, workloads)):
            uid, number = str(uuid.uuid4()), new_id()
            pod = "alone-4" if owner is None else "%s-%d" % (owner[1], n)
            api.put(kubeapi.pod(pod, uid, [number], owner=owner, labels=labels, annotations={"pyebpf.io/service-name": "named"} if n == 2 else {}))
            stack.enter_context(container(form, uid, number))
            made.append((number, pod, kind, name))
        with Agent(tmp_path, api, "--pod-label", "team=owner") as agent:
            lib.until(lambda: agent.kube()["live"] and agent.kube()["pods"] == len(FORMS), "the pods", 120)
            lib.until(lambda: all(of(agent.labels(), number) for number, _, _, _ in made), "a window", 120)
            assert "pods      6, as they are now" in agent.said("status")
            profiles = agent.end()
    for number, pod, kind, name in made:
        mine = of(profiles, number)
        assert mine, number
        for p in mine:
            assert (p["pod"], p["namespace"], p["workload_kind"], p["workload"]) == (pod, "shop", kind, name)
            assert (p["container"], p["image_tag"], p["node"]) == ("app", "1.4.2", "node-1") and not any(k.startswith("__") for k in p)
    services = [of(profiles, number)[0]["service_name"] for number, _, _, _ in made]
    assert services == ["web", "postgres", "named", "backup", "once", "alone-4"]
    first = of(profiles, made[0][0])[0]
    assert first["version"] == "7.1" and first["owner"] == "x"
    (_, path, query, login, by) = api.said("list")[0]
    assert path == "/api/v1/pods" and query == {"fieldSelector": "spec.nodeName=node-1", "resourceVersion": "0"}
    assert login == "Bearer " + kubeapi.TOKEN and by.startswith("pyebpf/")
    assert api.said("watch")[0][2]["allowWatchBookmarks"] == "true" and len(api.said("list")) == 1


def test_a_young_pod(api, tmp_path):
    """Known to the API by its uid only when it begins; its container's id comes when the program has ended, and the window has not."""
    uid, number = str(uuid.uuid4()), new_id()
    with Agent(tmp_path, api, window="60s") as agent:
        lib.until(lambda: agent.kube()["live"], "the watch", 120)
        api.put(kubeapi.pod("young", uid, owner=("Job", "once"), containers=("app", "side")))
        with container("containerd-systemd", uid, number):
            time.sleep(2)
        api.put(kubeapi.pod("young", uid, [new_id(), number], owner=("Job", "once"), containers=("app", "side")))
        api.delete(uid)
        profiles = of(agent.end(), number)
    assert profiles and all((p["pod"], p["namespace"], p["workload"]) == ("young", "shop", "once") for p in profiles)


def test_the_id_comes_later(api, tmp_path):
    uid, number = str(uuid.uuid4()), new_id()
    api.put(kubeapi.pod("late", uid, containers=("app", "side")))
    with container("containerd-cgroupfs", uid, number), Agent(tmp_path, api) as agent:
        lib.until(lambda: of(agent.labels(), number), "a window", 120)
        assert "container" not in of(agent.labels(), number)[0]
        api.put(kubeapi.pod("late", uid, [new_id(), number], containers=("app", "side")))
        lib.until(lambda: "side" in {p.get("container") for p in of(agent.labels(), number)}, "its name", 120)
        # what is gone is known until its last window is written
        api.delete(uid)
        lib.until(lambda: agent.kube()["pods"] == 0, "its end", 120)
        before = len(of(agent.labels(), number))
        lib.until(lambda: len(of(agent.labels(), number)) > before, "another window", 120)
        profiles = of(agent.end(), number)
    assert {p["pod"] for p in profiles} == {"late"} and profiles[-1]["container"] == "side"


def test_only_the_uid_is_known(api, tmp_path):
    """The kubelet has not told the id of the container yet; and a pod of the node's own files, whose uid in the API is not that of its
    cgroup."""
    uid, number, own, own_number = str(uuid.uuid4()), new_id(), hashlib.md5(b"x").hexdigest(), new_id()
    api.put(kubeapi.pod("pending", uid))
    api.put(kubeapi.pod("etcd-node-1", str(uuid.uuid4()), owner=("Node", "node-1"), annotations={"kubernetes.io/config.hash": own}))
    with container("docker-cgroupfs", uid, number), container("crio-systemd", own, own_number), Agent(tmp_path, api) as agent:
        lib.until(lambda: of(agent.labels(), number) and of(agent.labels(), own_number), "a window", 120)
        profiles = agent.end()
    assert {(p["pod"], p["container"]) for p in of(profiles, number)} == {("pending", "app")}
    assert {(p["pod"], p["workload_kind"], p["workload"]) for p in of(profiles, own_number)} == {("etcd-node-1", "Pod", "etcd")}


def test_opt_out_and_namespaces(api, tmp_path):
    chosen = {}
    with contextlib.ExitStack() as stack:
        for name, namespace, enabled in (("plain", "shop", None), ("out", "shop", "false"), ("system", "kube-system", None), ("asked", "bank", "true")):
            uid, number = str(uuid.uuid4()), new_id()
            api.put(kubeapi.pod(name, uid, [number], namespace=namespace, annotations={"pyebpf.io/enabled": enabled} if enabled else {}))
            stack.enter_context(container("containerd-cgroupfs", uid, number))
            chosen[name] = number
        stranger = chosen["stranger"] = new_id()
        stack.enter_context(container("containerd-cgroupfs", str(uuid.uuid4()), stranger))
        file = tmp_path / "agent.yaml"
        file.write_text("exclude: [nothing]\n")
        agent = stack.enter_context(Agent(tmp_path, api, "--config", file))
        lib.until(lambda: agent.kube()["live"], "the watch", 120)
        for n, (text, want) in enumerate((("", {"plain", "system", "asked", "stranger"}), ("exclude_namespace: [kube-*]", {"plain", "asked"}),
                                          ("include_namespace: [bank]", {"asked"}), ("opt_in: true", {"asked"}))):
            if n:
                file.write_text(text + "\n")
                agent.process.send_signal(signal.SIGHUP)
                lib.until(lambda n=n: agent.log.read_text().count("settings were read again") == n, "the settings", 120)
            before = len(agent.labels())

            def names():
                return {name for name, number in chosen.items() if of(agent.labels()[before:], number)}
            lib.until(lambda: names() >= want, "a window of " + text, 120)
            assert names() == want
            if not n:
                assert "pod" not in of(agent.labels(), stranger)[0]
        agent.end()


def test_an_outage_keeps_names(api, tmp_path):
    """The agent goes on, and says since when; afterwards it catches up without a new list, and with one when the server has forgotten."""
    uid, number, late, late_number = str(uuid.uuid4()), new_id(), str(uuid.uuid4()), new_id()
    api.put(kubeapi.pod("steady", uid, [number]))
    with container("containerd-systemd", uid, number), Agent(tmp_path, api) as agent:
        lib.until(lambda: agent.kube()["live"], "the watch", 120)
        api.down()
        lib.until(lambda: not agent.kube()["live"], "the outage", 120)
        before = len(agent.labels())
        lib.until(lambda: len(agent.labels()) > before, "a window", 120)
        kube = agent.kube()
        assert kube["pods"] == 1 and kube["synced"] and kube["age_seconds"] > 0 and "does not answer" in kube["error"]
        assert "pods are known as they were" in agent.log.read_text()
        assert "as they were" in agent.said("status")
        api.put(kubeapi.pod("later", late, [late_number]))
        api.up()
        lib.until(lambda: agent.kube()["live"] and agent.kube()["pods"] == 2, "the end of the outage", 120)
        with container("docker-systemd", late, late_number):
            lib.until(lambda: of(agent.labels(), late_number), "a window", 120)
            assert agent.kube()["error"] == "" and len(api.said("list")) == 1
            api.down()
            api.expire()
            api.delete(uid)
            api.up()
            lib.until(lambda: len(api.said("list")) == 2 and agent.kube()["live"] and agent.kube()["pods"] == 1, "a new list", 120)
            # the cache of the server was too old once, so this one is not to come from there
            assert "resourceVersion" not in api.said("list")[1][2]
            profiles = agent.end()
    assert {p["pod"] for p in of(profiles, number)} == {"steady"}
    assert {p["pod"] for p in of(profiles, late_number)} == {"later"}


def test_a_token_is_replaced(api, tmp_path):
    with Agent(tmp_path, api) as agent:
        lib.until(lambda: agent.kube()["live"], "the watch", 120)
        api.tokens = {"second"}
        api.down()
        api.up()
        lib.until(lambda: "does not know the token (401" in agent.kube()["error"], "the refusal", 120)
        assert "automountServiceAccountToken: true" in agent.log.read_text()
        (api.folder / "token").write_text("second")
        lib.until(lambda: agent.kube()["live"], "the new token", 120)
        assert api.said("watch")[-1][3] == "Bearer second"
        agent.end()


def hostile(kind):
    """What a server can send in place of a list or a watch."""
    def answer(h, verb):
        if verb != "list":
            return False
        texts = {"deep": b'{"items":' + b"[" * 5000, "binary": bytes(range(256)) * 64, "cut": b'{"items":[{"metadata":{"name":"x"',
                 "other": b'[1, "x", null, {"items": 3}]', "no-version": b'{"kind":"PodList","items":[]}',
                 "many": b'{"metadata":{"resourceVersion":"5"},"items":[' + b",".join(
                     b'{"metadata":{"name":"p%d","namespace":"n","uid":"%d","labels":{%s}}}' % (
                         n, n, b",".join(b'"%s":"%s"' % (b"k%d" % k * 20, b"v" * 200) for k in range(80))) for n in range(1500)) + b"]}"}
        h.send_response(200)
        h.send_header("Connection", "close")
        h.end_headers()
        h.wfile.write(texts[kind])
        return True
    return answer


@pytest.mark.parametrize("kind", ["deep", "binary", "cut", "other", "no-version", "many"])
def test_what_a_server_can_send(api, tmp_path, kind):
    """The agent runs on, and takes the truth when it comes."""
    uid, number = str(uuid.uuid4()), new_id()
    api.answer = hostile(kind)
    with Agent(tmp_path, api) as agent:
        # of the many not all are taken
        lib.until(lambda: agent.kube()["pods"] == 1024 if kind == "many" else agent.kube()["error"], "the answer", 120)
        assert "\x1b" not in agent.log.read_text()
        api.answer = None
        api.put(kubeapi.pod("true", uid, [number]))
        api.expire()
        lib.until(lambda: agent.kube()["live"] and agent.kube()["pods"] == 1, "the truth", 120)
        agent.end()


def children(pid):
    found = []
    for status in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if status.isdigit() and lib.status_field(int(status), "PPid") == str(pid):
                found.append(int(status))
    return found


def asking(agent):
    found = []
    for child in children(agent.process.pid):
        with contextlib.suppress(OSError):
            if pathlib.Path("/proc/%d/comm" % child).read_text() == "pyebpf-kube\n":
                found.append(child)
    return found


def test_who_asks_has_no_privilege(api, tmp_path):
    with Agent(tmp_path, api) as agent:
        lib.until(lambda: agent.kube()["live"], "the watch", 120)
        (child,) = asking(agent)
        for kind in ("CapPrm", "CapEff", "CapInh", "CapAmb"):
            assert int(lib.status_field(child, kind), 16) == 0
        # nothing of the agent's: its own socket, one to the server, and libcurl's two
        links = [os.readlink("/proc/%d/fd/%s" % (child, fd)) for fd in os.listdir("/proc/%d/fd" % child) if int(fd) > 2]
        assert len([x for x in links if x.startswith("socket:")]) <= 4 and not [x for x in links if "bpf" in x or "perf" in x or "store" in x], links
        os.kill(child, signal.SIGKILL)
        lib.until(lambda: asking(agent) and asking(agent) != [child] and agent.kube()["live"], "another one", 120)
        agent.end()


def test_no_node_name(api, tmp_path):
    command = [lib.BINARY, "agent", "--store", tmp_path / "store", "--kubernetes", "on", *api.options()[:6]]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", check=False, timeout=60)
    assert done.returncode == 2 and "name of this node is not known" in done.stderr and "fieldPath: spec.nodeName" in done.stderr


# --- a pod as a target ---

def pyebpf(*args, **env):
    return subprocess.run([lib.BINARY, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", check=False, timeout=180,
                          env={**os.environ, **env}, preexec_fn=lambda: os.nice(-10))


@pytest.fixture
def two(api):
    """A pod with two containers, and one more that is no part of it: (processes, ids)."""
    uid, ids = str(uuid.uuid4()), [new_id(), new_id(), new_id()]
    name = "two-%d" % os.getpid()
    api.put(kubeapi.pod(name, uid, ids[:2], containers=("app", "side")))
    with container("containerd-systemd", uid, ids[0]) as app, container("containerd-systemd", uid, ids[1]) as side, \
         container("containerd-cgroupfs", str(uuid.uuid4()), ids[2]):
        yield name, [app.pid, side.pid], ids


def recorded(folder, *options, **env):
    done = pyebpf("record", *options, "-r", "199", "-d", "2s", "-q", "--force", "-o", folder / "a.pyebpf", **env)
    assert done.returncode == 0, done.stderr
    return {s["pid"] for s in Samples(folder / "a.pyebpf").all}, done.stderr


def test_a_pod_by_the_api(api, two, tmp_path):
    name, pids, _ = two
    assert recorded(tmp_path, "--pod", "shop/" + name, **api.environment())[0] == set(pids)
    assert recorded(tmp_path, "--pod", "shop/" + name, "--container", "side", **api.environment())[0] == {pids[1]}
    # which is asked for that pod, and for nothing else
    assert {r[:2] for r in api.requests} == {("get", "/api/v1/namespaces/shop/pods/" + name)}


def test_a_look_into_a_pod(api, two):
    """list and dump."""
    name, pids, ids = two
    for options, wanted in ((["--pod", "shop/" + name], set(pids)), (["--pod", "shop/" + name, "--container", "side"], {pids[1]}),
                            (["--container", ids[0][:12]], {pids[0]})):
        for command, key in (("list", "pid"), ("dump", "pid")):
            done = pyebpf(command, "--json", *options, **api.environment())
            assert done.returncode == 0 and {row[key] for row in json.loads(done.stdout)} == wanted, (command, options, done.stderr)
    for command in ("list", "dump"):
        done = pyebpf(command, "--pod", "shop/none", **api.environment())
        assert done.returncode == 4 and "there is no such pod (404" in done.stderr
    for options in (["--pod", "shop/" + name, pids[0]], ["--pod", "shop/" + name, "--probes", pids[0]]):
        assert pyebpf("list", *options, **api.environment()).returncode == 2


def test_a_pod_by_the_links_of_kubelet(api, two, tmp_path):
    """Where no API server is known, and where it does not answer."""
    name, pids, ids = two
    links = pathlib.Path("/var/log/containers")
    links.mkdir(parents=True, exist_ok=True)
    made = [links / ("%s_shop_%s-%s.log" % (name, c, i)) for c, i in zip(("app", "side"), ids)]
    made.append(links / ("%s_other_app-%s.log" % (name, ids[2])))
    for link in made:
        link.symlink_to("/var/log/pods/nowhere")
    try:
        assert recorded(tmp_path, "--pod", "shop/" + name)[0] == set(pids)
        assert recorded(tmp_path, "--pod", "shop/" + name, "--container", "app")[0] == {pids[0]}
        env = dict(api.environment(), PYEBPF_KUBE_API="https://127.0.0.1:1")
        got, said = recorded(tmp_path, "--pod", "shop/" + name, **env)
        assert got == set(pids) and "does not answer" in said and "/var/log/containers" in said
    finally:
        for link in made:
            link.unlink()


def test_pods_that_cannot_be_found(api, two, tmp_path):
    name = two[0]
    api.put(kubeapi.pod("waiting", str(uuid.uuid4())))
    api.put(kubeapi.pod("elsewhere", str(uuid.uuid4()), [new_id()], node="node-7"))
    for code, said, pod, *options in ((4, "there is no such pod (404", "shop/none"), (4, "no container of pod shop/waiting has begun", "shop/waiting"),
                                      (4, "it is on node node-7", "shop/elsewhere"), (2, "want NAMESPACE/NAME", "a/b/c"), (2, "want NAMESPACE/NAME", "/x"),
                                      (4, "it has app, side", "shop/" + name, "--container", "none"), (4, "there is no such pod", name)):
        done = pyebpf("record", "-d", "1s", "-o", tmp_path / "no.pyebpf", "--pod", pod, *options, **api.environment())
        assert done.returncode == code and said in done.stderr, (pod, done.returncode, done.stderr)
    done = pyebpf("trace", "--pod", "shop/x", "-o", tmp_path / "no.pyebpf")
    assert done.returncode == 4 and "no API server is known" in done.stderr and "PYEBPF_KUBE_API" in done.stderr
    api.tokens = set()
    done = pyebpf("trace", "--pod", "shop/x", "-o", tmp_path / "no.pyebpf", **api.environment())
    assert done.returncode == 4 and "(401" in done.stderr and "serviceAccountName" in done.stderr


# --- an agent that lacks something ---

@contextlib.contextmanager
def in_a_pod(folder, *prefix, store="store", **options):
    """An agent that takes this for a pod: what /readyz says."""
    listen = "127.0.0.1:%d" % free_port()
    command = [*prefix, lib.BINARY, "agent", "--store", folder / store, "--window", "2s", "--any-window", "--socket", "", "--kubernetes", "off",
               "--listen", listen]
    with (folder / "log").open("w") as log, lib.started(command, stderr=log, env={**os.environ, "KUBERNETES_SERVICE_HOST": "192.0.2.1"}, **options) as process:
        yield process, "http://" + listen, folder / "log"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def get(url):
    """(status, text); None when nobody listens."""
    try:
        with urllib.request.urlopen(url, timeout=30) as r:
            return r.status, r.read().decode()
    except urllib.error.HTTPError as e:
        return e.code, e.read().decode()
    except OSError:
        return None


@pytest.mark.parametrize("name", ["bpf", "perfmon", "sys_ptrace", "dac_read_search", "checkpoint_restore"])
def test_a_capability_is_missing(tmp_path, name):
    """Also those without which it cannot begin: it stays to say so."""
    rest = "cap_%s" % name
    others = [c for c in ("bpf", "perfmon", "sys_ptrace", "dac_read_search", "checkpoint_restore") if c != name]
    held = ",".join("+" + c for c in others)
    with in_a_pod(tmp_path, "setpriv", "--bounding-set", "-all," + held, "--inh-caps", "-all") as (process, url, log):
        lib.until(lambda: get(url + "/readyz") or process.poll() is not None, "an answer", 120)
        lib.until(lambda: rest in (get(url + "/readyz") or (0, ""))[1], "the text", 120)
        status, text = get(url + "/readyz")
        assert status == 503 and "capabilities: {add: [" in text and name.upper() in text, text
        lib.until(lambda: (get(url + "/healthz") or (0,))[0] == 200, "its health", 120)
        assert rest in log.read_text() and "add: [" in log.read_text()
        process.terminate()
        assert process.wait(120) == (3 if name in ("bpf", "perfmon") else 0), log.read_text()


def test_nowhere_to_write(tmp_path):
    """As where no hostPath is allowed and the root is read-only."""
    (tmp_path / "file").write_text("")
    with in_a_pod(tmp_path, store="file/store") as (process, url, log):
        lib.until(lambda: get(url + "/readyz"), "an answer", 120)
        status, text = get(url + "/readyz")
        assert status == 503 and "file/store" in text and "hostPath: {path: /var/lib/pyebpf" in text and "emptyDir" in text
        assert "volumeMounts" in log.read_text() and "pyebpf_blocked 1" in get(url + "/metrics")[1]
        process.terminate()
        assert process.wait(120) == 6


def test_no_host_pids(tmp_path):
    with in_a_pod(tmp_path, "unshare", "--pid", "--fork", "--mount-proc", "--kill-child") as (_, url, log):
        lib.until(lambda: get(url + "/readyz"), "an answer", 120)
        status, text = get(url + "/readyz")
        assert status == 503 and "in the pod: hostPID: true" in text and "hostPID: true" in log.read_text()


@pytest.mark.parametrize("what", ["seccomp", "links", "btf", "kernel"])
def test_a_kernel_or_a_filter_in_the_way(tmp_path, what):
    """It cannot begin, and says what would let it."""
    prefix, options, said, code = {
        "seccomp": ((), {"preexec_fn": refuse_bpf(0, 1)}, ("seccomp filter forbids it", "seccompProfile: {type: "), 3),
        "links": ((), {"preexec_fn": refuse_bpf(28, 1)}, ("seccomp filter", "seccompProfile: {type: "), 3),
        "btf": (without("/sys/kernel/btf"), {}, ("btf: ", "CONFIG_DEBUG_INFO_BTF"), 5),
        "kernel": ((), {"preexec_fn": refuse_bpf(0, 22)}, ("ring_buffer: ", "Linux 5.8 or later"), 5)}[what]
    with in_a_pod(tmp_path, *prefix, **options) as (process, url, log):
        lib.until(lambda: get(url + "/readyz"), "an answer", 120)
        status, text = get(url + "/readyz")
        assert status == 503 and all(part in text and part in log.read_text() for part in said), text
        process.terminate()
        assert process.wait(120) == code


def test_nothing_is_missing(tmp_path):
    with in_a_pod(tmp_path) as (_, url, log):
        lib.until(lambda: (get(url + "/readyz") or (0,))[0] == 200, "the first window", 180)
        assert "hostPID" not in log.read_text() and "capabilities" not in log.read_text()
