# SPDX-License-Identifier: Apache-2.0
"""The agent and its store on live programs, and what fleet makes of it: the sum of what pprof itself reads."""
import gzip
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import pytest

import lib
import pythons

pytestmark = lib.needs_root

PPROF = pathlib.Path(os.environ.get("PYEBPF_CACHE") or
                     pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "pyebpf") / "bin/pprof"
PROGRAM = """
import time
def %s(n):
    t = 0
    for i in range(n):
        t += i * i
    return t
def main():
    while True:
        %s(100000)
main()
"""


def run(*args, **options):
    return subprocess.run([lib.BINARY, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          encoding="utf-8", check=False, timeout=120, **options)


def ok(*args):
    done = run(*args)
    assert done.returncode == 0, done.stderr
    return done.stdout


def program(folder, service, function, name):
    """A busy program that is a service of its own by its file's name."""
    path = folder / ("%s.py" % service)
    path.write_text(PROGRAM % (function, function))
    return [*pythons.found()[name], path]


@pytest.fixture(scope="module")
def names():
    """(service, function, interpreter): names that no other program of the machine has."""
    some = [n for n in pythons.names() if re.match(r"3\.11-debian|pyenv-3\.8\.|3\.14-sid", n)]
    return [("agent_test_%d" % i, "burn_%d" % i, name) for i, name in enumerate(some)]


@pytest.fixture(scope="module")
def store(names, tmp_path_factory):
    """With the programs, ended by SIGTERM: of windows that ended by the clock, and of the last one."""
    folder = tmp_path_factory.mktemp("agent")
    running = []
    try:
        for service, function, name in names:
            running.append(subprocess.Popen([str(c) for c in program(folder, service, function, name)]))
        with lib.started([lib.BINARY, "agent", "--store", folder / "store", "--window", "10s", "-r", "99", "--label",
                          "zone=a b\"c"], stderr=subprocess.PIPE) as agent:
            lib.until(lambda: all(windows(folder / "store", service) for service, _, _ in names), "a window", 60)
            time.sleep(2)
            said = lib.stop(agent, number=signal.SIGTERM)
    finally:
        for process in running:
            process.kill()
            process.wait(30)
    assert re.search(r"^pyebpf: \d+ windows, \d+ profiles, \d+ samples, \d+ lost, 0 profiles not written$", said, re.M)
    return folder / "store"


def windows(store, service):
    return sorted(store.glob("*-%s-*.pb.gz" % service))


def pprof(*args):
    return subprocess.run([PPROF, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True,
                          encoding="utf-8").stdout


def samples_of(*profiles):
    """Their sum, as pprof reads them."""
    text = pprof("-raw", *profiles)
    rows = re.findall(r"^ +(\d+) +\d+.*?: [\d ]+$", text.split("Samples:")[1].split("Locations")[0], re.M)
    return sum(map(int, rows))


def test_each_service_has_its_profiles(store, names):
    rows = {r["service"]: r for r in json.loads(ok("fleet", "services", "--store", store, "--json"))}
    for service, function, name in names:
        files = windows(store, service)
        assert files and rows[service]["profiles"] == len(files)
        assert rows[service]["bytes"] == sum(f.stat().st_size for f in files)
        top = json.loads(ok("fleet", "top", "--store", store, "--service", service, "--json"))
        assert top["rows"][0]["function"] == function
        assert {r["function"] for r in top["rows"]} <= {function, "main", "<module>"}
        comments = pprof("-comments", files[0])
        assert "label: service_name=%s\n" % service in comments and "label: zone=a b\"c\n" in comments
        version = re.search(r"3\.\d+", name)[0]
        assert "label: python=%s\n" % version in comments
    table = ok("fleet", "services", "--store", store)
    assert table.startswith("SERVICE ") and all(service in table for service, _, _ in names)


def span(path):
    text = subprocess.run(["protoc", "--decode", "perftools.profiles.Profile", "-I", PROTO.parent, PROTO],
                          input=gzip.decompress(path.read_bytes()), stdout=subprocess.PIPE, check=True).stdout.decode("utf-8")
    begin, length = (int(re.search(r"^%s: (\d+)$" % key, text, re.M)[1]) for key in ("time_nanos", "duration_nanos"))
    return begin, begin + length


def test_windows_meet(store):
    """Each begins where the one before ends; a service that had no CPU in one has no profile of it."""
    spans = sorted({span(f) for f in store.glob("*.pb.gz")})
    assert len(spans) >= 2
    assert [end for _, end in spans[:-1]] == [begin for begin, _ in spans[1:]]


PROTO = pathlib.Path(__file__).resolve().parents[1] / "readers" / "profile.proto"


def test_sums_are_those_of_pprof(store, names, tmp_path):
    for service, _, _ in names:
        files = windows(store, service)
        out = tmp_path / ("%s.pb.gz" % service)
        ok("fleet", "flame", "--store", store, "--service", service, "-o", out, "-q")
        assert samples_of(out) == samples_of(*files) > 0
        top = json.loads(ok("fleet", "top", "--store", store, "--service", service, "--json"))
        assert top["calls"] == samples_of(out)


def test_selectors(store, names):
    def services(*args):
        got = json.loads(ok("fleet", "services", "--store", store, "--json", *args))
        return {r["service"] for r in got} & {n[0] for n in names}
    every, first = {n[0] for n in names}, names[0][0]
    assert services("--query", '{service_name="%s"}' % first) == {first}
    assert services("--query", '{service_name=~"agent_test_.*", zone="a b\\"c"}') == every
    assert services("--query", '{zone!~"a.*"}') == set()
    assert services("--since", "24h", "--until", "23h") == set()
    done = run("fleet", "top", "--store", store, "--query", "{zone}")
    assert done.returncode == 2 and "want =, !=, =~ or !~" in done.stderr
    done = run("fleet", "flame", "--store", store, "--service", "none", "-o", "-", "-f", "collapsed")
    assert done.returncode == 4 and "no profile of that time and with these labels" in done.stderr


@pytest.mark.parametrize("extension", ["html", "svg", "folded", "json.gz", "speedscope.json"])
def test_flame_in_every_format(store, names, extension, tmp_path):
    service, function, _ = names[0]
    out = tmp_path / ("x." + extension)
    done = run("fleet", "flame", "--store", store, "--service", service, "-o", out)
    assert done.returncode == 0, done.stderr
    raw = out.read_bytes()
    text = gzip.decompress(raw) if extension.endswith("gz") else raw
    # the page has it compressed, tests/cli/test_view.py looks at such a page in a browser
    assert (extension == "html" and text.startswith(b"<!")) or function.encode() in text
    assert "wrote %s" % out in done.stderr


def test_the_catalogue_can_be_lost(store, names, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(store, copy)
    for f in copy.glob("catalogue.sqlite*"):
        f.unlink()
    want = ok("fleet", "services", "--store", store, "--json")
    assert ok("fleet", "services", "--store", copy, "--json") == want
    assert not list(copy.glob("catalogue*"))  # who only asks writes nothing
    torn = windows(copy, names[0][0])[0]
    torn.write_bytes(torn.read_bytes()[:100])
    rows = {r["service"]: r for r in json.loads(ok("fleet", "services", "--store", copy, "--json"))}
    assert rows[names[0][0]]["profiles"] == len(windows(store, names[0][0])) - 1
    assert rows[names[1][0]]["profiles"] == len(windows(store, names[1][0]))


def test_a_window_that_is_torn_later(store, names, tmp_path):
    """The catalogue knows it; a sum leaves it out, says so, and has all others."""
    copy = tmp_path / "copy"
    shutil.copytree(store, copy)
    whole = windows(copy, names[0][0])
    torn = whole[0]
    torn.write_bytes(torn.read_bytes()[:-100])
    done = run("fleet", "flame", "--store", copy, "--service", names[0][0], "-o", tmp_path / "pprof")  # a format by its name alone
    assert done.returncode == 0 and "1 profiles are damaged and left out: %s: " % torn.name in done.stderr, done.stderr
    assert samples_of(tmp_path / "pprof") == samples_of(*whole[1:]) > 0


def test_killed(names, tmp_path):
    """SIGKILL: complete windows stay, nothing is half written, and the next agent goes on."""
    store = tmp_path / "store"
    with lib.started(program(tmp_path, *names[0])):
        with lib.started([lib.BINARY, "agent", "--store", store, "--window", "10s"], stderr=subprocess.PIPE) as agent:
            lib.until(lambda: windows(store, names[0][0]), "a window", 60)
            done = run("agent", "--store", store)
            assert done.returncode == 6 and "another pyebpf writes to the store" in done.stderr
            agent.kill()
            agent.wait(30)
        before = windows(store, names[0][0])

        def goes_on():  # where a CPU is hard to get, it may see nothing of the program in its time
            ok("agent", "--store", store, "-d", "3s")
            assert not list(store.glob(".*"))
            return set(before) < set(windows(store, names[0][0]))
        lib.until(goes_on, "a window of the next one", 60)
        after = windows(store, names[0][0])
    assert samples_of(*after) > samples_of(*before) > 0


def test_a_machine_without_python(tmp_path):
    """Nothing to keep is no failure."""
    done = subprocess.run(["unshare", "-pf", "--mount-proc", "--kill-child", lib.BINARY, "agent", "--store", tmp_path / "store", "-d", "1s"],
                          stderr=subprocess.PIPE, encoding="utf-8", check=False, timeout=60)
    assert done.returncode == 0 and "no Python process was seen" in done.stderr
    assert not list((tmp_path / "store").glob("*.pb.gz"))


@pytest.mark.parametrize("args, said", [
    (["--window", "9s"], "--window: 10s to 5m"),
    (["--window", "10500ms"], "--window: 10s to 5m, whole seconds"),
    (["--rate", "0"], "--rate: 1 to 1000"),
    (["--label", "a-b=c"], "no label can be called a-b"),
    (["--label", "ab"], "want NAME=VALUE"),
    (["x"], "want status or burst"),
])
def test_refusals(args, said):
    done = run("agent", *args)
    assert done.returncode == 2 and said in done.stderr


@lib.needs_root
def test_the_first_start_without_a_package():
    """Nobody made /var/lib/pyebpf. In a mount namespace, so that there is none."""
    done = subprocess.run(["unshare", "-m", "sh", "-c", 'mount -t tmpfs tmpfs /var/lib && "$0" agent -d 2s --socket "" --listen "" && ls -d /var/lib/pyebpf/store',
                           lib.BINARY], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, timeout=120, encoding="utf-8")
    assert (done.returncode, done.stdout) == (0, "/var/lib/pyebpf/store\n"), done.stderr


def test_a_store_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    done = run("agent", "--store", tmp_path / "file")
    assert done.returncode == 6 and "cannot be opened: Not a directory" in done.stderr
    done = run("fleet", "services", "--store", tmp_path / "none")
    assert done.returncode == 2 and "cannot be opened: No such file or directory" in done.stderr


def test_each_label_once(names, tmp_path):
    """Labels of the settings may be called as those are that the agent finds: the machine's is replaced, the process's stays."""
    service = names[0][0]
    with lib.started(program(tmp_path, *names[0])) as process:
        lib.until(lambda: service in pathlib.Path("/proc/%d/cmdline" % process.pid).read_text(), "its start", 30)
        ok("agent", "--store", tmp_path / "store", "-d", "4s", "-r", "499", "--max-cpu", "100", "--socket", "", "--listen", "",
           "--label", "node=mine", "--label", "service_name=no", "--label", "python=no", "--label", "profile_type=no")
    text = gzip.decompress(windows(tmp_path / "store", service)[0].read_bytes())
    assert b"label: node=mine" in text and b"label: profile_type=cpu" in text and not re.search(rb"label: \w+=no", text)
    assert text.count(b"label: service_name=") == text.count(b"label: node=") == 1


MAKER = """
import sys, time
for i in range(10**6):
    space = {"cpu": time.thread_time}
    exec("def made_%d(end):\\n    while cpu() < end:\\n        pass\\n" % i, space)
    space["made_%d" % i](time.thread_time() + 0.1)
"""


def test_code_objects_that_come_and_go(names, tmp_path):
    """A name that was read is believed as long as nobody says that its code object died: each has its own 0.1 s of CPU."""
    makers, services = [], ["agent_maker_%d" % i for i in range(len(names))]
    try:
        for service, (_, _, name) in zip(services, names):
            path = tmp_path / (service + ".py")
            path.write_text(MAKER)
            makers.append(subprocess.Popen([*map(str, pythons.found()[name]), path]))
        with lib.started([lib.BINARY, "agent", "--store", tmp_path / "store", "--socket", tmp_path / "socket", "--listen", "", "--include",
                          "agent_maker*", "--window", "10s", "-r", "99"], stderr=subprocess.PIPE) as agent:
            lib.until(lambda: all(len(windows(tmp_path / "store", s)) > 1 for s in services), "two windows", 60)
            lib.stop(agent, number=signal.SIGTERM)
    finally:
        for maker in makers:
            maker.kill()
            maker.wait(30)
    for service in services:
        top = json.loads(ok("fleet", "top", "--store", tmp_path / "store", "--service", service, "-n", "1000", "--json"))
        made = [r["calls"] for r in top["rows"] if r["function"].startswith("made_")]
        assert len(made) > 3 and sum(made) > 0.8 * top["calls"], top["rows"][:3]
        assert max(made) <= 20, sorted(made)[-5:]
