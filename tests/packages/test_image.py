# SPDX-License-Identifier: Apache-2.0
"""The container image, run by runc as a Kubernetes node would: from nothing but its own layer, read-only, uid 0 with
exactly five capabilities, no new privileges, the machine's process numbers."""
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile

import pytest

import lib

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/agent"))
CAPABILITIES = ["CAP_BPF", "CAP_CHECKPOINT_RESTORE", "CAP_DAC_READ_SEARCH", "CAP_PERFMON", "CAP_SYS_PTRACE"]
PROGRAM = "import time\ndef inner():\n    time.sleep(0.001)\nwhile 1:\n    inner()\n"

pytestmark = [pytest.mark.slow, pytest.mark.needs_root,
              pytest.mark.skipif(not shutil.which("runc"), reason="no runc")]


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    folder = tmp_path_factory.mktemp("image")
    done = subprocess.run([ROOT / "scripts/package", "--out", folder, "image"], stdout=subprocess.PIPE, check=True,
                          encoding="utf-8", timeout=1200)
    return pathlib.Path(done.stdout.strip())


@pytest.fixture(scope="module")
def rootfs(image, tmp_path_factory):
    """What an engine makes of the archive; every blob is what its name says."""
    folder = tmp_path_factory.mktemp("rootfs")
    with tarfile.open(image) as tar:
        blobs = {m.name: tar.extractfile(m).read() for m in tar if m.isfile()}
    for name, data in blobs.items():
        assert not name.startswith("blobs/") or name == "blobs/sha256/" + hashlib.sha256(data).hexdigest()
    oci, docker = json.loads(blobs["index.json"]), json.loads(blobs["manifest.json"])[0]
    manifest = json.loads(blobs["blobs/sha256/" + oci["manifests"][0]["digest"][7:]])
    config = json.loads(blobs["blobs/sha256/" + manifest["config"]["digest"][7:]])
    (layer,) = ["blobs/sha256/" + part["digest"][7:] for part in manifest["layers"]]
    assert docker["Layers"] == [layer] and config["rootfs"]["diff_ids"] == ["sha256:" + layer[13:]]
    assert config["config"]["Entrypoint"] == ["/usr/bin/pyebpf"] and json.loads(blobs["oci-layout"])
    (folder / "layer").write_bytes(blobs[layer])
    with tarfile.open(folder / "layer") as tar:
        tar.extractall(folder / "rootfs")
    return folder / "rootfs"


class Container:
    """run(): pyebpf with these arguments. missing: capabilities that it does not get; deny: system calls that a filter
    refuses."""

    def __init__(self, rootfs, folder):
        self.rootfs, self.folder, self.cnt = rootfs, folder, 0
        (folder / "out").mkdir()

    def config(self, args, missing, deny, host_pid, tracefs):
        held = [c for c in CAPABILITIES if c not in missing]
        kinds = ["mount", "network", "ipc", "uts", "cgroup"] + ([] if host_pid else ["pid"])
        mounts = [("/proc", "proc", "proc", []), ("/sys", "sysfs", "sysfs", ["nosuid", "nodev", "noexec", "ro"]),
                  ("/dev", "tmpfs", "tmpfs", ["mode=755"]), ("/tmp", "tmpfs", "tmpfs", []),
                  ("/out", "bind", str(self.folder / "out"), ["bind", "rw"])]
        if tracefs:
            mounts.append(("/sys/kernel/tracing", "bind", "/sys/kernel/tracing", ["bind", "ro"]))
        linux = {"namespaces": [{"type": kind} for kind in kinds],
                 "maskedPaths": ["/proc/kcore", "/sys/firmware"], "readonlyPaths": ["/proc/sys"]}
        if deny:
            linux["seccomp"] = {"defaultAction": "SCMP_ACT_ALLOW", "architectures": ["SCMP_ARCH_X86_64"],
                                "syscalls": [{"names": deny, "action": "SCMP_ACT_ERRNO", "errnoRet": 1}]}
        return {"ociVersion": "1.0.2", "root": {"path": str(self.rootfs), "readonly": True}, "hostname": "pod",
                "process": {"user": {"uid": 0, "gid": 0}, "cwd": "/", "noNewPrivileges": True,
                            "args": ["/usr/bin/pyebpf", *args],
                            "env": ["PATH=/usr/bin", "KUBERNETES_SERVICE_HOST=192.0.2.1"],
                            "capabilities": {kind: held for kind in ("bounding", "effective", "permitted")}},
                "mounts": [dict(zip(("destination", "type", "source", "options"), m)) for m in mounts], "linux": linux}

    def run(self, *args, missing=(), deny=(), host_pid=True, tracefs=False):
        self.cnt += 1
        bundle = self.folder / ("bundle%d" % self.cnt)
        bundle.mkdir()
        config = self.config([str(a) for a in args], missing, list(deny), host_pid, tracefs)
        (bundle / "config.json").write_text(json.dumps(config), "utf-8")
        return subprocess.run(["runc", "--root", self.folder / "runc", "run", "--bundle", bundle,
                               "pyebpf-%d-%d" % (os.getpid(), self.cnt)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              encoding="utf-8", check=False, timeout=120)

    def doctor(self, **kw):
        done = self.run("doctor", "--json", **kw)
        report = json.loads(done.stdout)
        assert done.returncode == report["exit_code"], done.stderr
        return report


@pytest.fixture
def container(rootfs, tmp_path):
    return Container(rootfs, tmp_path)


@pytest.fixture(scope="module")
def target():
    with lib.started([sys.executable, "-c", PROGRAM]) as process:
        lib.until(lambda: b"-c" in pathlib.Path("/proc/%d/cmdline" % process.pid).read_bytes(), "its start", 10)
        yield process.pid


def test_what_is_in_it(image, rootfs):
    got = {str(p.relative_to(rootfs)) for p in rootfs.rglob("*") if not p.is_dir()}
    assert got == {"usr/bin/pyebpf", "etc/ssl/certs/ca-certificates.crt", "usr/share/doc/pyebpf/LICENSE",
                   "usr/share/doc/pyebpf/sbom.spdx.json"}
    assert image.stat().st_size < 30 << 20


def test_five_capabilities_are_enough(container, target):
    report = container.doctor()
    assert report["works"] and report["where"] == "a Kubernetes pod", report
    states = {check["name"]: check["state"] for check in report["checks"]}
    assert states["sandbox"] == states["programs"] == states["pid_namespace"] == "ok"


@pytest.mark.parametrize("command", [("record", "-r", "499"), ("trace",)], ids=lambda c: c[0])
def test_it_profiles_a_process_of_the_machine(container, target, command):
    done = container.run(*command, "-p", target, "-d", "1s", "-o", "/out/x.pyebpf", "-q")
    assert done.returncode == 0, done.stderr
    stats = container.run("stats", "/out/x.pyebpf", "--json")
    report = json.loads(stats.stdout)
    assert "inner" in {row["function"] for row in report["rows"]} and not any(report["lost"].values())


def test_it_sends(rootfs, tmp_path):
    """Its libcurl has no shared library to lean on: HTTP, and the first bytes of TLS."""
    import double  # pylint: disable=import-outside-toplevel
    import windows  # pylint: disable=import-outside-toplevel
    windows.hour(tmp_path / "store", minutes=1)

    def send(url, *options):
        return subprocess.run([rootfs / "usr/bin/pyebpf", "fleet", "send", "--store", tmp_path / "store", "--sink", "clickhouse=" + url,
                               *options], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, encoding="utf-8", check=False, timeout=60)
    with double.Double() as server:
        refused = send(server.url.replace("http:", "https:"), "-d", "2s")
        assert refused.returncode != 0 and not server.taken and re.search("(?i)ssl", refused.stderr), refused.stderr
        done = send(server.url, "-d", "20s")
    assert done.returncode == 0 and server.taken, done.stderr


def test_dump_and_list(container, target):
    stacks = container.run("dump", "-p", target)
    assert stacks.returncode == 0 and "inner (<string>:" in stacks.stdout, stacks.stderr
    rows = json.loads(container.run("list", "--json").stdout)
    assert target in {row["pid"] for row in rows}


@pytest.mark.parametrize("missing", CAPABILITIES)
def test_a_capability_that_is_missing_is_named(container, missing):
    """What a pod has to ask for stands there as a line of its manifest."""
    report = container.doctor(missing=[missing])
    (check,) = [c for c in report["checks"] if c["name"] == missing.lower()]
    assert check["state"] != "ok"
    assert any("capabilities: {add: [" in fix and missing[4:] in fix for fix in check["fix"]), check
    if missing in ("CAP_BPF", "CAP_PERFMON"):
        assert not report["works"]


def test_a_filter_is_named(container):
    report = container.doctor(deny=["bpf"])
    assert not report["works"]
    (check,) = [c for c in report["checks"] if c["name"] == "bpf"]
    assert "seccomp filter forbids it" in check["text"] and "seccompProfile" in " ".join(check["fix"])


def test_a_pod_that_sees_only_itself(container):
    (check,) = [c for c in container.doctor(host_pid=False)["checks"] if c["name"] == "pid_namespace"]
    assert check["state"] != "ok" and "hostPID: true" in " ".join(check["fix"])
