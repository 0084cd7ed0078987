# SPDX-License-Identifier: Apache-2.0
"""A real Kubernetes node: API server, controller manager, scheduler and kubelet 1.34 (the peer kubeall), with etcd, containerd,
runc and the bridge plug-in of Debian. It lives in a network and a mount namespace of its own, where nothing of it can be
reached from outside, and /var/lib/pyebpf, /run/netns and /var/log are its own. What stands in for kube-proxy and DNS is services.py.

All that can be seen of it outside is processes and cgroups below one of its own; stop() leaves nothing."""
import base64
import contextlib
import ctypes
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

FOLDER = pathlib.Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
CACHE = pathlib.Path(os.environ.get("PYEBPF_CACHE") or
                     pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "pyebpf")
PARTS = CACHE / "bin/kubernetes-node"
STORE = pathlib.Path("/var/lib/pyebpf")
IP, DNS, NAME = "10.96.0.1", "10.96.0.10", "node1"
TOKENS = ("admin,admin,admin,system:masters", "kcm,system:kube-controller-manager,kcm,system:masters",
          "scheduler,system:kube-scheduler,scheduler", "kubelet,system:node:%s,%s,system:nodes" % (NAME, NAME))
CONTAINERD = """version = 2
root = "{w}/cd-root"
state = "{w}/cd-state"
[grpc]
  address = "{w}/cd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "local.test/pause:1"
  restrict_oom_score_adj = true
  stream_server_address = "127.0.0.1"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{parts}/usr/lib/cni"
    conf_dir = "{w}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      BinaryName = "{runc}"
"""
BRIDGE = {"cniVersion": "0.4.0", "name": "kube", "plugins": [
    {"type": "bridge", "bridge": "pyecni0", "isGateway": True, "ipMasq": False,
     "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.244.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
# Root need not have CAP_SYS_RESOURCE here, nor systemd; file systems of build machines are strange to the kubelet.
KUBELET = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", "address": IP, "readOnlyPort": 0,
    "healthzBindAddress": "127.0.0.1", "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
    "authorization": {"mode": "AlwaysAllow"}, "cgroupDriver": "cgroupfs", "failSwapOn": False, "makeIPTablesUtilChains": False,
    "resolvConf": "", "oomScoreAdj": 0, "localStorageCapacityIsolation": False, "clusterDNS": [DNS], "clusterDomain": "cluster.local",
    "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
    "featureGates": {"KubeletInUserNamespace": True}, "syncFrequency": "10s"}


def missing():
    """Why there can be no node here, or None."""
    if os.geteuid() != 0:
        return "needs root"
    if not (PARTS / "usr/bin/containerd").exists() or not shutil.which("runc"):
        return "etcd, containerd or runc is not there: run scripts/setup"
    return None


def until(condition, what, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.2)
    raise TimeoutError("waited %d s for %s" % (seconds, what))


class Node:
    """kubeall: its path. folder: for all that it writes. backends: {"namespace/service": "host:port"}, for services without pods.
    audit: the policy by which the API server writes audit.log."""

    def __init__(self, kubeall, folder, backends=(), audit=None):
        self.backends, self.audit = dict(backends), audit
        self.kubeall, self.w, self.holder, self.made_store = str(kubeall), pathlib.Path(folder), None, False
        self.processes, self.cgroup = {}, "pyebpf-node-%d" % os.getpid()

    # --- processes ---

    def inside(self, command):
        return ["nsenter", "--target", str(self.holder.pid), "--net", "--mount", "--", "sh", "-c", 'cd "$0" && exec "$@"',
                str(self.w), *map(str, command)]

    def run(self, *command, check=True, **options):
        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "encoding": "utf-8", "timeout": 180,
                   **options}
        if "input" in options:
            del options["stdin"]
        done = subprocess.run(self.inside(command), env=self.env(), check=False, **options)
        assert not check or done.returncode == 0, "%s: %s%s" % (" ".join(map(str, command)), done.stdout, done.stderr)
        return done

    def env(self):
        return dict(os.environ, PATH="%s/usr/bin:%s:%s/bin" % (PARTS, os.environ["PATH"], self.w), KUBECONFIG=str(self.w / "admin.conf"))

    def start(self, name, *command):
        with (self.w / "log" / name).open("ab") as log:
            self.processes[name] = subprocess.Popen(self.inside(command), env=self.env(), cwd=self.w, stdin=subprocess.DEVNULL, stdout=log,
                                                    stderr=log, start_new_session=True)

    def runs(self, name):
        assert self.processes[name].poll() is None, self.said()
        return True

    def end(self, name, force=False):
        process = self.processes.pop(name, None)
        if process:
            process.send_signal(signal.SIGKILL if force else signal.SIGTERM)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(10)

    def kube(self, name, *args):
        self.start(name, self.kubeall, "kube-" + name if name != "kubelet" else name, *args)

    @contextlib.contextmanager
    def net(self):
        """What this thread connects to, and what it starts, is in the node's network."""
        libc, clone_newnet = ctypes.CDLL(None, use_errno=True), 0x40000000
        with open("/proc/thread-self/ns/net", "rb") as home, open("/proc/%d/ns/net" % self.holder.pid, "rb") as there:
            if libc.setns(there.fileno(), clone_newnet):
                raise OSError(ctypes.get_errno(), "setns")
            try:
                yield
            finally:
                if libc.setns(home.fileno(), clone_newnet):
                    os._exit(70)

    def http(self, url, data=None, headers=None, timeout=20):
        """(status, body); 0 for no answer."""
        with self.net():
            try:
                with urllib.request.urlopen(urllib.request.Request(url, data=data, headers=headers or {}), timeout=timeout) as answer:
                    return answer.status, answer.read()
            except urllib.error.HTTPError as error:
                return error.code, error.read()
            except OSError:
                return 0, b""

    # --- settings ---

    def login(self, name):
        pem = base64.b64encode((self.w / "certs/apiserver.crt").read_bytes()).decode()
        (self.w / (name + ".conf")).write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "x",
            "clusters": [{"name": "c", "cluster": {"server": "https://%s:443" % IP, "certificate-authority-data": pem}}],
            "users": [{"name": "u", "user": {"token": name + "-token"}}], "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}]}))

    def write_settings(self):
        for name in ("certs", "log", "cni", "kubelet", "bin", "store"):
            (self.w / name).mkdir(parents=True)
        key = self.w / "certs/sa.key"
        subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, stderr=subprocess.DEVNULL)
        subprocess.run(["openssl", "rsa", "-in", key, "-pubout", "-out", self.w / "certs/sa.pub"], check=True, stderr=subprocess.DEVNULL)
        (self.w / "tokens.csv").write_text("".join("%s-token,%s\n" % (t.split(",", 1)[0], t.split(",", 1)[1]) for t in TOKENS))
        (self.w / "containerd.toml").write_text(CONTAINERD.format(w=self.w, parts=PARTS.resolve(), runc=shutil.which("runc")))
        bridge = json.loads(json.dumps(BRIDGE))
        bridge["plugins"][0]["ipam"]["dataDir"] = str(self.w / "cni-data")
        (self.w / "cni/10-bridge.conflist").write_text(json.dumps(bridge))
        (self.w / "kubelet.yaml").write_text(json.dumps(dict(
            KUBELET, containerRuntimeEndpoint="unix://%s/cd.sock" % self.w, cgroupRoot="/" + self.cgroup, podLogsDir=str(self.w / "podlogs"),
            volumePluginDir=str(self.w / "volplugins"))))
        (self.w / "bin/kubectl").symlink_to(self.kubeall)
        (self.w / "audit.json").write_text(json.dumps(self.audit))

    # --- life ---

    def __enter__(self):
        self.w.mkdir(parents=True, exist_ok=True)
        self.made_store = not STORE.exists()
        STORE.mkdir(parents=True, exist_ok=True)
        self.holder = subprocess.Popen(["unshare", "--net", "--mount", "sleep", "infinity"], start_new_session=True)
        until(lambda: os.readlink("/proc/%d/ns/net" % self.holder.pid) != os.readlink("/proc/self/ns/net") and
              pathlib.Path("/proc/%d/comm" % self.holder.pid).read_text() == "sleep\n", "a namespace", 30)
        try:
            self.up()
        except BaseException:
            print(self.said(), file=sys.stderr)
            self.stop()
            raise
        return self

    def said(self):
        """The last lines of each program."""
        return "\n".join("--- %s\n%s" % (log.name, log.read_text("utf-8", "replace")[-1500:]) for log in sorted((self.w / "log").iterdir()))

    def __exit__(self, *_):
        self.stop()

    def up(self):
        self.write_settings()
        self.make_cgroups()
        self.run("mount", "--bind", self.w / "store", STORE)
        self.run("sh", "-c", "mkdir -p /run/netns && mount -t tmpfs none /run/netns && mount -t tmpfs none /var/log")
        for command in (["link", "set", "lo", "up"], ["addr", "add", IP + "/32", "dev", "lo"], ["addr", "add", DNS + "/32", "dev", "lo"]):
            self.run("ip", *command)
        self.start_containerd()
        self.start("etcd", "etcd", "--data-dir", "etcd", "--listen-client-urls", "http://127.0.0.1:12379", "--advertise-client-urls",
                   "http://127.0.0.1:12379", "--listen-peer-urls", "http://127.0.0.1:12380", "--initial-advertise-peer-urls",
                   "http://127.0.0.1:12380", "--initial-cluster", "default=http://127.0.0.1:12380", "--unsafe-no-fsync")
        self.start_apiserver()
        for name in ("kcm", "scheduler", "kubelet"):
            self.login(name)
        self.kube("controller-manager", "--kubeconfig=kcm.conf", "--authentication-kubeconfig=kcm.conf",
                  "--authorization-kubeconfig=kcm.conf", "--bind-address=127.0.0.1", "--leader-elect=false",
                  "--service-account-private-key-file=certs/sa.key", "--root-ca-file=certs/apiserver.crt")
        self.kube("scheduler", "--kubeconfig=scheduler.conf", "--authentication-kubeconfig=scheduler.conf",
                  "--authorization-kubeconfig=scheduler.conf", "--bind-address=127.0.0.1", "--leader-elect=false")
        self.load_pause()
        self.start_kubelet()
        self.start("services", sys.executable, FOLDER / "services.py", "https://%s:443" % IP, "admin-token", DNS,
                   *map("=".join, self.backends.items()))
        until(self.is_ready, "the node", 120)

    def is_ready(self):
        return " Ready" in self.run("kubectl", "get", "node", NAME, "--no-headers", check=False).stdout

    def start_containerd(self):
        self.start("containerd", "containerd", "--config", "containerd.toml")
        until(lambda: self.ctr("version", check=False).returncode == 0, "containerd", 60)

    def start_apiserver(self):
        self.kube("apiserver", "--etcd-servers=http://127.0.0.1:12379", "--bind-address=" + IP, "--advertise-address=" + IP,
                  "--secure-port=443", "--cert-dir=certs", "--service-cluster-ip-range=10.96.0.0/16",
                  "--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file=certs/sa.pub",
                  "--service-account-signing-key-file=certs/sa.key", "--token-auth-file=tokens.csv", "--authorization-mode=Node,RBAC",
                  "--endpoint-reconciler-type=none", "--allow-privileged=true", "--kubelet-preferred-address-types=InternalIP",
                  *(["--audit-policy-file=audit.json", "--audit-log-path=audit.log"] if self.audit else []))
        until(lambda: self.runs("apiserver") and (self.w / "certs/apiserver.crt").exists(), "the API server's certificate", 120)
        self.login("admin")
        until(lambda: self.runs("apiserver") and self.run("kubectl", "get", "--raw", "/readyz", check=False).stdout == "ok",
              "the API server", 120)

    def start_kubelet(self):
        self.kube("kubelet", "--config=kubelet.yaml", "--kubeconfig=kubelet.conf", "--root-dir=%s/kubelet" % self.w,
                  "--cert-dir=%s/kubelet/pki" % self.w, "--hostname-override=" + NAME, "--node-ip=" + IP)

    def ctr(self, *args, **options):
        return self.run("ctr", "--address", self.w / "cd.sock", "--namespace", "k8s.io", *args, **options)

    def load(self, archive):
        self.ctr("images", "import", archive)

    def load_pause(self):
        """The program that holds a pod's namespaces."""
        folder = self.w / "pause"
        (folder / "root").mkdir(parents=True)
        source = "#include <unistd.h>\nint main(void) { for (;;) pause(); }\n"
        subprocess.run(["gcc", "-static", "-Os", "-x", "c", "-", "-o", folder / "root/pause"], input=source, encoding="utf-8", check=True)
        self.load(make_image("local.test/pause:1", folder / "root", folder / "pause.tar", ["/pause"]))

    # --- use ---

    def kubectl(self, *args, **options):
        return self.run("kubectl", *args, **options).stdout

    def get(self, *args):
        return json.loads(self.kubectl("get", *args, "-o", "json"))

    # --- the end ---

    def crash(self):
        """As a machine that loses its power, but for the disk and the control plane, which is another machine's."""
        self.end("kubelet", force=True)
        for pid in set(self.in_pods()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.end("containerd", force=True)
        for pid in self.mine():
            if "containerd-shim" in command_of(pid):
                os.kill(pid, signal.SIGKILL)

    def mine(self):
        """Processes in its mount namespace: its programs, and containerd's shims, which are nobody's children."""
        ours = os.readlink("/proc/%d/ns/mnt" % self.holder.pid)
        for entry in pathlib.Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and os.readlink(entry / "ns/mnt") == ours and int(entry.name) != self.holder.pid:
                    yield int(entry.name)

    def make_cgroups(self):
        for top in hierarchies():
            (top / self.cgroup).mkdir()
            for name in ("cpuset.cpus", "cpuset.mems"):  # version 1 has them empty in a new group, and then nobody may be in it
                if (top / name).exists() and (top / self.cgroup / name).exists() and "cpuset" in top.name:
                    (top / self.cgroup / name).write_text((top / name).read_text())

    def cgroups(self):
        """Deepest first."""
        found = [p for top in hierarchies() for p in (top / self.cgroup).rglob("*") if p.is_dir()]
        return sorted(found, key=lambda p: -len(p.parts)) + [top / self.cgroup for top in hierarchies() if (top / self.cgroup).is_dir()]

    def remove_cgroups(self):
        """True when there are none left."""
        for path in self.cgroups():
            with contextlib.suppress(OSError):
                path.rmdir()
        return not self.cgroups()

    def in_pods(self):
        for path in self.cgroups():
            with contextlib.suppress(OSError):
                yield from map(int, (path / "cgroup.procs").read_text().split())

    def stop(self):
        for name in ("kubelet", "services", "scheduler", "controller-manager"):
            self.end(name, force=True)
        for pid in set(self.in_pods()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for name in ("apiserver", "containerd", "etcd"):
            self.end(name, force=True)
        end = time.monotonic() + 30
        while time.monotonic() < end and [os.kill(pid, signal.SIGKILL) for pid in self.mine() if alive(pid)]:
            time.sleep(0.1)
        self.holder.kill()  # the namespaces, with all that is mounted, end with it
        self.holder.wait(10)
        until(self.remove_cgroups, "the end of the pods", 30)
        shutil.rmtree(self.w, ignore_errors=True)
        if self.made_store:
            with contextlib.suppress(OSError):
                STORE.rmdir()


def alive(pid):
    with contextlib.suppress(OSError):
        return pathlib.Path("/proc/%d/stat" % pid).read_text().rsplit(")", 1)[1].split()[0] != "Z"
    return False


def command_of(pid):
    with contextlib.suppress(OSError):
        return pathlib.Path("/proc/%d/comm" % pid).read_text()
    return ""


def hierarchies():
    """The root of each tree of cgroups: one, or with version 1 one for each controller."""
    top = pathlib.Path("/sys/fs/cgroup")
    return [top] if (top / "cgroup.procs").exists() else [p for p in sorted(top.iterdir()) if p.is_dir() and not p.is_symlink()]


def make_image(reference, rootfs, archive, entrypoint):
    sys.path.insert(0, str(ROOT / "deploy/docker"))
    import image  # pylint: disable=import-outside-toplevel
    image.pack(reference, str(rootfs), {"Entrypoint": entrypoint, "Env": ["PATH=/usr/bin:/bin"], "WorkingDir": "/"}, str(archive))
    return archive
