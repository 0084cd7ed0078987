#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Servers and tools of others for tests, built from Go modules that are pinned in the folders here: go.mod, go.sum, and a few
lines of Go where a program of our own puts parts together; and scripts for a browser from npm packages that a lock file pins.
Each is built once, into the cache, under a hash of its folder and of the compiler; what fails leaves its log there.

    peers.py NAME...  builds what is not there yet and prints the paths; without a name, all that the tests here need

One is built at a time, on this machine: whoever comes meanwhile waits."""
import argparse
import fcntl
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

FOLDER = pathlib.Path(__file__).resolve().parent
CACHE = pathlib.Path(os.environ.get("PYEBPF_CACHE") or
                     pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "pyebpf") / "peers"
BUILD_TIMEOUT_S = 7200
FAILED_FOR_S = 3600  # as long a build that failed is not tried again


class Peer:
    """folder: below this one; package: what is built; flags: of go build; versions: for ldflags -X; noop: (module, file of it,
    ours in its place)."""

    def __init__(self, folder, package=".", flags=(), versions=(), noop=None):
        self.folder, self.package, self.flags = FOLDER / folder, package, list(flags)
        self.link = "-s -w" + "".join(" -X " + v for v in versions)
        self.noop = noop

    missing = "Go is not installed"

    @staticmethod
    def compiler():
        return go() and subprocess.run([go(), "version"], env=go_env(), check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout

    def recipe(self):
        return [self.package, *self.flags, self.link]

    def compile(self, work, binary, log):
        if self.noop:
            module_copy(self, work, log)
        # what the linker leaves out need not be made: a fifth of the compiler's time
        subprocess.run([go(), "build", "-trimpath", *self.flags, "-gcflags=all=-dwarf=0", "-ldflags=" + self.link, "-o", binary,
                        self.package], cwd=work, env=go_env(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=True,
                       timeout=BUILD_TIMEOUT_S)


class Script:
    """folder: with package.json, its lock file, and @source, which becomes one file with all that it needs."""
    missing = "node and npm are not installed"
    LOADERS = ("svg=dataurl", "woff2=dataurl", "ttf=dataurl", "css=empty")

    def __init__(self, folder, source):
        self.folder, self.source = FOLDER / folder, source

    @staticmethod
    def compiler():
        return shutil.which("npm") and subprocess.run(["node", "--version"], check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout

    def recipe(self):
        return [self.source, *self.LOADERS]

    def compile(self, work, binary, log):
        for command in (["npm", "ci", "--ignore-scripts", "--legacy-peer-deps", "--no-audit", "--no-fund", "--loglevel=error"],
                        ["node_modules/.bin/esbuild", self.source, "--bundle", "--minify", "--outfile=%s" % binary,
                         '--define:process.env.NODE_ENV="production"', *("--loader:." + one for one in self.LOADERS)]):
            subprocess.run(command, cwd=work, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=True, timeout=BUILD_TIMEOUT_S)


KUBE = "k8s.io/component-base/version."
# First what most tests ask for: on a slow machine not all of them are there in time.
PEERS = {
    "kubeconform": Peer("tools", "github.com/yannh/kubeconform/cmd/kubeconform"),
    "kustomize": Peer("tools", "sigs.k8s.io/kustomize/kustomize/v5"),
    "pyrodouble": Peer("pyrodouble"),
    # API server, controller manager, scheduler, kubelet and kubectl, by the first argument
    "kubeall": Peer("kubeall", versions=[KUBE + "gitVersion=v1.34.4", KUBE + "gitMajor=1", KUBE + "gitMinor=34"]),
    # a module of its own: its k8s.io must not mix with that of kubeall
    "helm": Peer("helm", "helm.sh/helm/v3/cmd/helm"),
    "netpol": Peer("netpol"),
    "otelcol": Peer("otelcol"),
    "parca": Peer("parca", "github.com/parca-dev/parca/cmd/parca"),
    "grafana-panel": Script("grafana", "panel.jsx"),
    # It raises RLIMIT_MEMLOCK, which root may not everywhere, and kernels since 5.11 do not need.
    "otel-ebpf-profiler": Peer("otel-ebpf-profiler", "go.opentelemetry.io/ebpf-profiler", ["-mod=mod", "-tags=osusergo,netgo"],
                               noop=("go.opentelemetry.io/ebpf-profiler", "rlimit/rlimit.go", "rlimit_noop.go")),
}


def wanted():
    """What the tests here ask for."""
    text = "".join(file.read_text("utf-8") for file in sorted(FOLDER.glob("*.py")))
    return [name for name in PEERS if 'need("%s")' % name in text]


def go():
    """The compiler's path, or None. sudo has a path of its own."""
    return shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")


def go_env():
    env = dict(os.environ, CGO_ENABLED="0", GOFLAGS="-buildvcs=false", GOTOOLCHAIN="local", GOWORK="off")
    env.setdefault("HOME", str(pathlib.Path.home()))
    return env


def place(name):
    """Where it is, or will be. The compiler is asked each time: another one gives another program."""
    peer, h = PEERS[name], hashlib.sha256()
    for file in sorted(peer.folder.iterdir()):
        h.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    h.update("\0".join([name, *peer.recipe(), peer.compiler()]).encode())
    return CACHE / h.hexdigest()[:16] / name


def found(name):
    """(path, None), or (None, why it is not there)."""
    if not PEERS[name].compiler():
        return None, PEERS[name].missing
    path = place(name)
    if path.exists():
        return path, None
    failed = path.parent / "failed"
    return None, "its build failed, see %s" % failed if failed.exists() else "it is not built: run tests/peers/peers.py %s" % name


def need(name):
    """The path of a peer; the test that asks is skipped when it is not there."""
    import pytest  # pylint: disable=import-outside-toplevel
    path, why = found(name)
    return path or pytest.skip("%s: %s" % (name, why))


# --- building ---

def module_copy(peer, work, log):
    """The module of others with a file of ours in place of one of its own."""
    module, file, ours = peer.noop
    said = subprocess.run([go(), "mod", "download", "-json", module], cwd=work, env=go_env(), check=True, stdout=subprocess.PIPE,
                          stderr=log)
    shutil.copytree(json.loads(said.stdout)["Dir"], work / "module", copy_function=shutil.copyfile)
    for folder, _, _ in os.walk(work / "module"):
        os.chmod(folder, 0o755)
    shutil.copyfile(peer.folder / ours, work / "module" / file)
    (work / ours).unlink()
    subprocess.run([go(), "mod", "edit", "-replace=%s=./module" % module], cwd=work, env=go_env(), check=True, stderr=log)


def is_given_up(failed):
    return failed.exists() and time.time() - failed.stat().st_mtime < FAILED_FOR_S


def build(name):
    """Its path; None when it cannot be built, and the reason is on stderr."""
    if not PEERS[name].compiler():
        print("peers: %s: %s" % (name, PEERS[name].missing), file=sys.stderr)
        return None
    path = place(name)
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if path.exists():
            return path
        failed, log = path.parent / "failed", path.parent / "log"
        if is_given_up(failed):
            print("peers: %s: its build failed before, see %s" % (name, failed), file=sys.stderr)
            return None
        for left in CACHE.glob("work-*"): # of one that was killed
            shutil.rmtree(left, ignore_errors=True)
        started = time.monotonic()
        try:
            with tempfile.TemporaryDirectory(dir=CACHE, prefix="work-") as work, log.open("w") as out:
                work = pathlib.Path(work)
                binary = work / "built"
                shutil.copytree(PEERS[name].folder, work / "src")
                PEERS[name].compile(work / "src", binary, out)
                binary.rename(path)
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            log.rename(failed)
            print("peers: %s: %s\n%s" % (name, error, failed.read_text("utf-8", "replace")[-2000:]), file=sys.stderr)
            return None
        log.unlink()
        print("peers: %s: built in %d s" % (name, time.monotonic() - started), file=sys.stderr)
        return path


def main():
    parser = argparse.ArgumentParser(description="Builds servers and tools of others for tests; prints their paths.")
    parser.add_argument("name", nargs="*", metavar="NAME", help=" ".join(PEERS))
    names = parser.parse_args().name or wanted()
    for name in names:
        if name not in PEERS:
            parser.error("no peer %s; there are %s" % (name, " ".join(PEERS)))
    built = [build(name) for name in names]
    print("\n".join(str(path) for path in built if path))
    return 0 if all(built) else 1


if __name__ == "__main__":
    sys.exit(main())
