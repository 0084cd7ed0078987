# SPDX-License-Identifier: Apache-2.0
"""What is installed and packed: each package is made, unpacked or installed where it is meant for, and run there."""
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
sys.path.insert(0, str(ROOT / "tests/readers"))
CACHE = pathlib.Path(os.environ.get("PYEBPF_CACHE") or
                     pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "pyebpf")
SHARED = ["bin/pyebpf", "share/man/man1/pyebpf.1", "share/man/man1/pyebpf-convert.1",
          "share/bash-completion/completions/pyebpf", "share/fish/vendor_completions.d/pyebpf.fish",
          "lib/systemd/system/pyebpf-agent.service"]
MINUTES = 20 * 60


def run(*args, **kw):
    done = subprocess.run([str(a) for a in args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8",
                          errors="replace", check=False, timeout=MINUTES, **kw)
    assert done.returncode == 0, done.stdout
    return done.stdout


def files(folder):
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if not p.is_dir()}


@pytest.fixture(scope="module")
def capture(tmp_path_factory):
    from test_pprof import generate  # pylint: disable=import-outside-toplevel
    path = tmp_path_factory.mktemp("capture") / "x.pyebpf"
    return path, generate(str(path), 1000)["events"]


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    """The static packages, made once."""
    folder = tmp_path_factory.mktemp("dist")
    made = run(ROOT / "scripts/package", "--out", folder, "tarball", "wheel", "sbom").split()
    return {("wheel" if p.endswith(".whl") else "sbom" if p.endswith(".json") else "tarball"): pathlib.Path(p) for p in made}


@pytest.mark.parametrize("prefix", ["/usr", "/opt/pyebpf"])
def test_install_honours_destdir_and_prefix(pyebpf, tmp_path, prefix):
    run("cmake", "--install", pyebpf.path.parent, "--prefix", prefix, env={**os.environ, "DESTDIR": str(tmp_path)})
    got = files(tmp_path)
    assert {prefix[1:] + "/" + name for name in [*SHARED, "share/zsh/site-functions/_pyebpf"]} <= got
    assert all(name.startswith(prefix[1:] + "/") for name in got)
    for shell, name in (("bash", SHARED[3]), ("fish", SHARED[4])):
        assert (tmp_path / prefix[1:] / name).read_text("utf-8") == pyebpf("completions", shell).stdout
    assert run(tmp_path / prefix[1:] / "bin/pyebpf", "version").startswith("pyebpf ")


def built_at(folder, target):
    """A build of a copy of the checkout in that folder, under another umask; the folder it was built in."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout.decode().split("\0")
    for name in (n for n in names if n and (ROOT / n).is_file()):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    run("cmake", "-G", "Ninja", "-S", folder, "-B", folder / "out", "-DCMAKE_BUILD_TYPE=Release", "-DPYEBPF_TESTS=OFF")
    run("cmake", "--build", folder / "out", "--target", target, umask=0o077, env={**os.environ, "CCACHE_DISABLE": "1"})
    return folder / "out"


# PYEBPF_LONG has the whole program
BUILT = [("bpf_trace", "bpf/trace.skel.h"), ("pye_proc", "user/proc/libpye_proc.a"), *[("pyebpf", "pyebpf")] * lib.LONG]


@pytest.mark.parametrize("target, name", BUILT, ids=[target for target, _ in BUILT])
def test_two_builds_are_the_same_bytes(target, name, tmp_path):
    """Wherever the checkout lies and whenever it was built."""
    one, other = (built_at(tmp_path / place, target) / name for place in ("here", "at/another/place"))
    assert one.read_bytes() == other.read_bytes() and str(tmp_path).encode() not in one.read_bytes()


def hardening(program):
    """What the ELF file says of itself; readelf is foreign to us."""
    dynamic, segments, names = (run("readelf", flag, program) for flag in ("-dW", "-lW", "-sW"))
    return {"pie": bool(re.search(r"Flags:.* PIE", dynamic)), "now": "BIND_NOW" in dynamic or "Flags: NOW" in dynamic,
            "relro": "GNU_RELRO" in segments, "stack": bool(re.search(r"GNU_STACK .* RW +0x", segments)),
            "protector": "__stack_chk_fail" in names, "fortify": "_chk@" in names or "__fprintf_chk" in names,
            "writable code": bool(re.search(r"LOAD .* RWE", segments))}


def test_hardening(pyebpf):
    got = hardening(pyebpf.path)
    assert got == {"pie": True, "now": True, "relro": True, "stack": True, "protector": True, "fortify": True,
                   "writable code": False}


@pytest.mark.slow
def test_hardening_of_the_static_program(dist, tmp_path):
    with tarfile.open(dist["tarball"]) as tar:
        tar.extractall(tmp_path)
    program = next(tmp_path.glob("*/usr/bin/pyebpf"))
    got = hardening(program)
    # it is stripped: what the compiler put in has no name any more
    assert {k: got[k] for k in ("pie", "now", "relro", "stack", "writable code")} == {
        "pie": True, "now": True, "relro": True, "stack": True, "writable code": False}
    assert b"stack smashing detected" in program.read_bytes() and b"buffer overflow detected" in program.read_bytes()
    assert program.stat().st_size < 20 << 20
    assert "NEEDED" not in run("readelf", "-dW", program)


def release_root(release, folder):
    """A root folder of a Debian release: its packages are downloaded once."""
    tar = CACHE / "roots" / (release + ".tar")
    if not tar.exists():
        tar.parent.mkdir(parents=True, exist_ok=True)
        run("mmdebstrap", "--variant=extract", "--mode=root", "--include=python3-minimal,dash,coreutils", release, str(tar) + ".part.tar")
        os.rename(str(tar) + ".part.tar", tar)
    run("tar", "-C", folder, "--exclude=./dev/*", "-xf", tar)


@pytest.mark.slow
@pytest.mark.needs_root
@pytest.mark.parametrize("release", ["bullseye", "trixie"])
def test_the_tarball_runs_in_another_debian(dist, capture, tmp_path, release):
    release_root(release, tmp_path)
    run("tar", "-C", tmp_path, "--strip-components=1", "-xzf", dist["tarball"])
    shutil.copy(capture[0], tmp_path / "x.pyebpf")
    assert run("chroot", tmp_path, "/usr/bin/pyebpf", "version").startswith("pyebpf ")
    report = json.loads(run("chroot", tmp_path, "/usr/bin/pyebpf", "stats", "/x.pyebpf", "--json"))
    assert report["events"] == capture[1]
    run("chroot", tmp_path, "/usr/bin/pyebpf", "convert", "/x.pyebpf", "-o", "/x.pb.gz", "-q")
    again = json.loads(run("chroot", tmp_path, "/usr/bin/pyebpf", "stats", "/x.pb.gz", "--json"))
    assert again["self_ns"] == report["self_ns"]
    # names of users are looked up there
    plan = run("chroot", tmp_path, "/usr/bin/pyebpf", "list", "--probes", os.path.realpath(tmp_path / "usr/bin/python3")
               .replace(str(tmp_path), ""))
    assert "CPython %s" % {"bullseye": "3.9", "trixie": "3.13"}[release] in plan


@pytest.mark.slow
def test_the_wheel_in_a_fresh_environment(dist, capture, tmp_path):
    run("/usr/bin/python3", "-m", "venv", tmp_path / "venv")
    pip = tmp_path / "venv/bin/pip"
    run(pip, "install", "--no-index", "--disable-pip-version-check", dist["wheel"])
    assert run(pip, "show", "-f", "pyebpf").count("bin/pyebpf") == 1
    program = tmp_path / "venv/bin/pyebpf"
    assert json.loads(run(program, "stats", capture[0], "--json"))["events"] == capture[1]
    if os.geteuid() == 0:  # what sudo does not find is told with its place
        for folder in (tmp_path, *tmp_path.parents):
            if folder.owner() == "root" and folder != pathlib.Path("/tmp"):
                os.chmod(folder, os.stat(folder).st_mode | 0o055)
        done = subprocess.run(["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", program, "trace",
                               "-p", "1", "-o", "/tmp/none-%d.json" % os.getpid()], stderr=subprocess.PIPE, check=False,
                              encoding="utf-8", timeout=60)
        assert done.returncode == 3 and "sudo %s ..." % program in done.stderr
    run(pip, "uninstall", "-y", "pyebpf")
    assert not program.exists()


@pytest.mark.slow
def test_the_sbom(dist):
    with open(dist["sbom"], encoding="utf-8") as f:
        sbom = json.load(f)
    assert sbom["spdxVersion"] == "SPDX-2.3" and sbom["dataLicense"] == "CC0-1.0"
    names = {p["name"]: p for p in sbom["packages"]}
    assert {"pyebpf", "libbpf", "elfutils libelf", "zlib", "zstd", "capstone", "yajl", "sqlite", "ncurses", "libmicrohttpd", "libyaml", "glibc", "speedscope"} <= set(names)
    idents = [p["SPDXID"] for p in sbom["packages"]]
    assert len(idents) == len(set(idents)) and all(re.fullmatch(r"SPDXRef-[\w.-]+", i) for i in idents)
    known = {*idents, "SPDXRef-DOCUMENT"}
    related = {(r["relationshipType"], r["relatedSpdxElement"]) for r in sbom["relationships"]}
    assert all(other in known for _, other in related) and {other for _, other in related} == set(idents)
    for package in sbom["packages"]:
        assert package["versionInfo"] and package["licenseConcluded"] and package["downloadLocation"]


@pytest.mark.slow
@pytest.mark.usefixtures("dist")
def test_the_libraries_of_the_sbom_are_those_that_are_linked():
    """A library that is new has to be named."""
    ninja = (ROOT / "build-static/build.ninja").read_text("utf-8")
    line = re.search(r"^build pyebpf: C_EXECUTABLE.*?\n\n", ninja, re.M | re.S)[0] + \
        "".join(re.findall(r"^.*-lelf.*$", ninja, re.M))
    linked = {re.sub(r".*/lib|^-l|\.a$", "", word) for word in line.split() if re.match(r"-l\w|/.*/lib\w+\.a$", word)}
    assert {"bpf", "elf"} <= linked <= {"bpf", "elf", "z", "zstd", "capstone", "yajl_s", "sqlite3", "ncursesw", "tinfo", "microhttpd", "yaml", "curl", "ssl", "crypto",
                                     "brotlidec", "brotlicommon", "m"}, linked


@lib.long_only
def test_the_debian_package(tmp_path):
    (path,) = run(ROOT / "scripts/package", "--out", tmp_path, "deb").split()
    told = run("lintian", "--allow-root", "--fail-on", "error,warning", path)
    assert not told.strip() or "running with root privileges" in told
    listed = run("dpkg-deb", "-c", path)
    for name in ("./usr/bin/pyebpf", "./usr/share/man/man1/pyebpf-trace.1.gz", "./usr/share/bash-completion/completions/pyebpf",
                 "./usr/share/zsh/vendor-completions/_pyebpf", "./usr/share/fish/vendor_completions.d/pyebpf.fish",
                 "./usr/share/doc/pyebpf/copyright", "./lib/systemd/system/pyebpf-agent.service"):
        assert " %s\n" % name in listed, name
    needed = run("dpkg-deb", "-f", path, "Depends")
    assert {"libbpf1", "libyajl2", "libcapstone4", "libsqlite3-0", "libncursesw6", "libmicrohttpd12"} <= set(re.findall(r"[\w.+-]+", needed))
    # who installs a profiler does not ask for one that always runs
    run("dpkg-deb", "-e", path, tmp_path / "control")
    script = (tmp_path / "control/postinst").read_text("utf-8")
    assert "deb-systemd-helper debian-installed 'pyebpf-agent.service'" in script  # not enabled; test_systemd.py tries it
    run("dpkg-deb", "-x", path, tmp_path / "x")
    assert run(tmp_path / "x/usr/bin/pyebpf", "version").startswith("pyebpf ")
    assert "ExecStart=/usr/bin/pyebpf agent" in (tmp_path / "x/lib/systemd/system/pyebpf-agent.service").read_text("utf-8")
