# SPDX-License-Identifier: Apache-2.0
"""Status, metrics, health, limits and files of the agent; the unit and the alerts that are shipped."""
import contextlib
import fcntl
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

import pytest
import yaml

import lib
import windows

ROOT = pathlib.Path(__file__).resolve().parents[2]
SECRET = "agent-operation-s3cr3t"


def run(*args, **options):
    return subprocess.run([lib.BINARY, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          encoding="utf-8", check=False, timeout=120, **options)


class Agent:
    def __init__(self, folder, program):
        self.folder, self.program = folder, program
        self.port = self.url = None

    def get(self, path, method="GET"):
        """(status, headers, text)"""
        try:
            with urllib.request.urlopen(urllib.request.Request(self.url + path, method=method), timeout=30) as r:
                return r.status, r.headers, r.read().decode()
        except urllib.error.HTTPError as e:
            return e.code, e.headers, e.read().decode()

    def status(self, *options):
        return run("agent", "status", "--socket", self.folder / "socket", *options).stdout

    def metrics(self):
        return parse(self.get("/metrics")[2])


def parse(text):
    """{name{labels}: value}, as Prometheus' text format has it: each with one TYPE before, and one HELP."""
    kinds, helps, values = {}, set(), {}
    for line in text.splitlines():
        if line.startswith("# HELP "):
            assert line.split()[2] not in helps
            helps.add(line.split()[2])
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            assert name not in kinds and kind == ("counter" if name.endswith("_total") else "gauge")
            kinds[name] = kind
        else:
            m = re.fullmatch(r'(pyebpf_[a-z_]+)(\{[a-z_]+="[^"\\]*"(?:,[a-z_]+="[^"\\]*")*\})? (\d+(?:\.\d+)?)', line)
            assert m, line
            assert m[1] in kinds and m[1] in helps and m[1] + (m[2] or "") not in values
            values[m[1] + (m[2] or "")] = float(m[3])
    assert text.endswith("\n") and set(kinds) == {re.match("[a-z_]+", v)[0] for v in values}
    return values


@pytest.fixture(scope="module")
def agent(tmp_path_factory):
    folder = tmp_path_factory.mktemp("operation")
    path = folder / "agent_operation.py"
    path.write_text("while True: pass\n")
    log = folder / "log"
    with lib.started([*lib.any_python(), path, SECRET], env={"SECRET": SECRET}) as program, log.open("w") as out, \
         lib.started([lib.BINARY, "agent", "--store", folder / "store", "--window", "10s", "--socket", folder / "socket", "--kill-switch", "",
                      "--burst-file", ""], env={"PYEBPF_LISTEN": "127.0.0.1:0"}, stderr=out) as process:
        made = Agent(folder, program)
        made.process = process
        lib.until(lambda: made.status(), "an answer", 60)
        made.port = port_of(process.pid)
        made.url = "http://127.0.0.1:%d" % made.port
        yield made
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, log.read_text()


def inodes(pid):
    """Of its sockets."""
    out = set()
    for fd in pathlib.Path("/proc/%d/fd" % pid).iterdir():
        with contextlib.suppress(FileNotFoundError):  # it is closed by now
            m = re.match(r"socket:\[(\d+)\]", os.readlink(fd))
            out |= {m[1]} if m else set()
    return out


def port_of(pid):
    """That it listens on."""
    own = inodes(pid)
    return next(int(r[1].split(":")[1], 16) for r in (x.split() for x in pathlib.Path("/proc/%d/net/tcp" % pid).read_text().splitlines()[1:])
                if r[3] == "0A" and r[9] in own)


def listening(pid):
    """Addresses, in the kernel's hex."""
    own = inodes(pid)
    rows = [x.split() for name in ("tcp", "tcp6") for x in pathlib.Path("/proc/%d/net/%s" % (pid, name)).read_text().splitlines()[1:]]
    return {r[1].split(":")[0] for r in rows if r[3] == "0A" and r[9] in own}


@lib.needs_root
def test_metrics_and_status_agree(agent):
    lib.until(lambda: agent.metrics()["pyebpf_windows_total"] >= 1, "a window", 60)
    metrics, status = agent.metrics(), json.loads(agent.status("--json"))
    assert metrics["pyebpf_samples_total"] > 0 and metrics["pyebpf_targets"] >= 1
    assert metrics["pyebpf_bpf_run_seconds_total"] > 0 and metrics["pyebpf_agent_cpu_seconds_total"] > 0
    assert {k for k in metrics if k.startswith("pyebpf_events_lost_total")} == {
        'pyebpf_events_lost_total{reason="%s"}' % r for r in ("ring", "map", "read", "kernel", "user", "throttle")}
    # what only grows, and was asked for later
    for name in ("samples_total", "windows_total", "agent_cpu_seconds_total", "profiles_total"):
        assert status[name] >= metrics["pyebpf_" + name]
    files = list((agent.folder / "store").glob("*.pb.gz"))
    assert metrics["pyebpf_profiles_total"] <= len(files) and sum(f.stat().st_size for f in files) >= metrics["pyebpf_profile_bytes_total"]
    text = agent.status()
    assert text.startswith("state     running, for ") and re.search(r"^windows   \d+, \d+ profiles, \d+ bytes, 0 not written$", text, re.M)


@lib.needs_root
def test_health(agent):
    assert agent.get("/healthz")[::2] == (200, "ok\n")
    lib.until(lambda: agent.get("/readyz")[0] == 200, "a window", 60)


@lib.needs_root
def test_nothing_else_is_served(agent):
    """Loopback alone, no debug pages, no profiles, no names of what is profiled."""
    assert listening(agent.process.pid) == {"0100007F"}
    for path in ("/", "/debug/pprof/", "/metrics/x", "/metrics?x", "/../etc/passwd", "/store", "/catalogue.sqlite"):
        assert agent.get(path)[0] == 404, path
    assert agent.get("/metrics", "POST")[0] == 405
    assert "agent_operation" not in agent.get("/metrics")[2] and agent.get("/metrics", "HEAD")[0] == 200


@lib.needs_root
def test_secrets_stay_where_they_are(agent):
    """Neither arguments nor the environment of a target are in the store, the messages or the answers."""
    lib.until(lambda: list((agent.folder / "store").glob("*-agent_operation-*.pb.gz")), "a profile", 60)
    seen = b"".join(subprocess.run(["gzip", "-dc", f], stdout=subprocess.PIPE, check=True).stdout
                    for f in (agent.folder / "store").glob("*.pb.gz"))
    assert b"agent_operation" in seen and SECRET.encode() not in seen
    for f in [agent.folder / "log", agent.folder / "store/catalogue.sqlite"]:
        assert SECRET.encode() not in f.read_bytes()
    assert SECRET not in agent.status("--json")
    assert all(f.stat().st_mode & 0o077 == 0 for f in [agent.folder / "store", *(agent.folder / "store").iterdir()])
    # nor could a core file tell
    assert re.search(r"^Max core file size +0 +0 ", pathlib.Path("/proc/%d/limits" % agent.process.pid).read_text(), re.M)


@lib.needs_root
def test_a_socket_and_a_port_that_are_taken(agent, tmp_path):
    done = run("agent", "--store", tmp_path / "a", "--listen", "", "--socket", agent.folder / "socket", "-d", "1s")
    assert done.returncode == 6 and "another agent listens there" in done.stderr
    done = run("agent", "--store", tmp_path / "b", "--socket", "", "--listen", "127.0.0.1:%d" % agent.port, "-d", "1s")
    assert done.returncode != 0 and "127.0.0.1" in done.stderr, done.stderr
    (tmp_path / "file").write_text("mine")
    done = run("agent", "--store", tmp_path / "c", "--listen", "", "--socket", tmp_path / "file", "-d", "1s")
    assert done.returncode == 6 and (tmp_path / "file").read_text() == "mine"
    assert json.loads(agent.status("--json"))["state"] == "running"


@lib.needs_root
def test_waits_above_a_threshold(tmp_path):
    """Time off the CPU is in the same profiles, where it was asked for: nap() takes 50 ms and no CPU."""
    path = tmp_path / "agent_napping.py"
    path.write_text("import time\ndef nap():\n    time.sleep(0.05)\ndef burn():\n    return sum(range(10000))\nwhile True: nap(); burn()\n")
    with lib.started([*lib.any_python(), path]), \
         lib.started([lib.BINARY, "agent", "--store", tmp_path / "store", "--listen", "", "--socket", "", "--any-window", "--window", "1s",
                      "--off-cpu", "20ms"], stderr=subprocess.PIPE) as process:
        lib.until(lambda: len(list((tmp_path / "store").glob("*-agent_napping-*"))) >= 3, "windows", 60)
        lib.stop(process, number=signal.SIGTERM)
    top = json.loads(run("fleet", "top", "--store", tmp_path / "store", "--service", "agent_napping", "--json").stdout)
    assert {r["function"]: r["self_ns"] for r in top["rows"]}["nap"] > 20e6, top["rows"]


WAITER = """
import sys, time
def quick_nap():
    begin = time.monotonic()
    time.sleep(0.005)
    return time.monotonic() - begin
def last_wait():
    time.sleep(1000)
quick = 0
while sys.stdin is not None:
    quick += quick_nap() < 0.2
    with open(sys.argv[1], "r+b") as f:
        f.write(b"%012d" % quick)
    try:
        open(sys.argv[2]).close()
        break
    except OSError:
        pass
with open(sys.argv[1], "r+b") as f:
    f.write(b"%012d" % 10**11)
last_wait()
"""


@lib.needs_root
def test_short_waits_end_in_the_kernel(tmp_path):
    """Each that the program has seen itself is counted there and goes no further; the stack of one that lasts until the end comes all the
    same."""
    path, tally, stop, socket = tmp_path / "agent_waiting.py", tmp_path / "tally", tmp_path / "stop", tmp_path / "socket"
    path.write_text(WAITER)
    tally.write_text("%012d" % 0)
    with lib.started([*lib.any_python(), path, tally, stop]), \
         lib.started([lib.BINARY, "agent", "--store", tmp_path / "store", "--listen", "", "--socket", socket, "--any-window", "--window", "1s",
                      "--off-cpu", "250ms", "-r", "99", "--max-cpu", "100"], stderr=subprocess.PIPE) as process:
        def status():
            done = run("agent", "status", "--json", "--socket", socket)
            return json.loads(done.stdout) if done.returncode == 0 else {"waits_short_total": 0}

        lib.until(lambda: status()["waits_short_total"], "a short wait", 60)
        counted, seen = status()["waits_short_total"], int(tally.read_text())
        lib.until(lambda: int(tally.read_text()) >= seen + 50, "quick naps", 60)
        seen = int(tally.read_text()) - seen
        after = status()
        assert after["waits_short_total"] - counted >= seen - 1
        assert 0 < after["waits_short_seconds_total"] < 0.25 * after["waits_short_total"]
        stop.touch()
        lib.until(lambda: int(tally.read_text()) == 10**11, "the last wait", 60)
        time.sleep(1.5)  # above the threshold by then
        lib.stop(process, number=signal.SIGTERM)
    top = json.loads(run("fleet", "top", "--store", tmp_path / "store", "--service", "agent_waiting", "--json").stdout)
    assert {r["function"]: r["self_ns"] for r in top["rows"]}["last_wait"] >= 250e6, top["rows"]


CAPABILITIES = (2, 19, 38, 39, 40)  # dac_read_search, sys_ptrace, perfmon, bpf, checkpoint_restore


@lib.needs_root
def test_with_the_five_capabilities_of_the_unit(tmp_path):
    """It samples, has a socket and traces a burst with no other; what it writes is its own."""
    path = tmp_path / "agent_caps.py"
    path.write_text("def burn():\n    return sum(range(1000))\nwhile True: burn()\n")
    few = ["setpriv", "--bounding-set", "-all," + ",".join("+cap_%d" % n for n in CAPABILITIES), "--no-new-privs"]
    with lib.started([*lib.any_python(), path]) as program, \
         lib.started([*few, lib.BINARY, "agent", "--store", tmp_path / "store", "--listen", "", "--socket", tmp_path / "socket"],
                     stderr=subprocess.PIPE) as process:
        lib.until(lambda: "done: 1 profiles" in run("agent", "burst", "pid=%d" % program.pid, "seconds=1", "--socket", tmp_path / "socket").stdout,
                  "a burst", 60)
        effective = int(re.search(r"^CapEff:\s*(\w+)", pathlib.Path("/proc/%d/status" % process.pid).read_text(), re.M)[1], 16)
        assert not effective & ~sum(1 << n for n in CAPABILITIES)
        lib.until(lambda: json.loads(run("agent", "status", "--json", "--socket", tmp_path / "socket").stdout)["samples_total"], "samples", 60)
        said = lib.stop(process, number=signal.SIGTERM)
    assert ", 0 profiles not written" in said


@lib.needs_root
def test_the_memory_ceiling(tmp_path):
    """Above it nothing is sampled, and the agent says so."""
    path = tmp_path / "busy.py"
    path.write_text("while True: pass\n")
    with lib.started([*lib.any_python(), path]), \
         lib.started([lib.BINARY, "agent", "--store", tmp_path / "store", "--listen", "", "--socket", tmp_path / "socket", "--max-memory", "1M"],
                     stderr=subprocess.PIPE) as process:
        def status():
            done = run("agent", "status", "--json", "--socket", tmp_path / "socket")
            return json.loads(done.stdout) if done.returncode == 0 else {}
        lib.until(lambda: status().get("state") == "over_memory", "the ceiling", 60)
        got = status()
        assert got["sampling_hz"] == 0 and got["resident_memory_bytes"] > got["memory_limit_bytes"] == 1 << 20
        assert "above max_memory" in lib.stop(process, number=signal.SIGTERM)


def mapped_rings(pid):
    """Bytes of the kernel's rings in a process, each as often as it is mapped."""
    return sum(int(to, 16) - int(at, 16)
               for at, to in re.findall(r"^([0-9a-f]+)-([0-9a-f]+) .*anon_inode:bpf-map$", pathlib.Path("/proc/%d/maps" % pid).read_text(), re.M))


@lib.needs_root
def test_small_rings_hold_what_comes_while_nobody_looks(tmp_path):
    """At 99 Hz, ten times as long as the agent sleeps: stacks of 60 frames on all CPUs."""
    path = tmp_path / "agent_deep.py"
    path.write_text("def down(n):\n    if n: return down(n - 1)\n    while True: pass\ndown(60)\n")
    with contextlib.ExitStack() as stack:
        for _ in range(2 * os.cpu_count()):
            stack.enter_context(lib.started([*lib.any_python(), path]))
        agent = stack.enter_context(lib.started([lib.BINARY, "agent", "--store", tmp_path / "store", "--listen", "", "--socket", tmp_path / "socket",
                                                 "--rate", "99", "--max-cpu", "100", "--kill-switch", "", "--burst-file", ""], stderr=subprocess.PIPE))

        def status():
            done = run("agent", "status", "--json", "--socket", tmp_path / "socket")
            return json.loads(done.stdout) if done.returncode == 0 else {}
        lib.until(lambda: status().get("samples_total", 0) > 20, "samples", 60)
        assert mapped_rings(agent.pid) < (3 + 2 * os.cpu_count()) << 20
        for _ in range(3):
            agent.send_signal(signal.SIGSTOP)
            time.sleep(2)
            agent.send_signal(signal.SIGCONT)
            before = status()["samples_total"]
        lib.until(lambda: status()["samples_total"] > before, "more of them", 60)
        assert not any(status()["lost"].values()), status()
        lib.stop(agent, number=signal.SIGTERM)


def test_purge(tmp_path):
    """All that a store has goes with its folder; what others have put there stays, and a store in use is not touched."""
    store = tmp_path / "store"
    windows.hour(store, minutes=3)
    assert run("fleet", "services", "--store", store).returncode == 0
    for name in ("catalogue.sqlite-wal", "outbox.sqlite", "outbox.sqlite-shm", ".pyebpf-1-2.tmp", "lock"):
        (store / name).touch()
    kept, there = len(list(store.glob("*.pb.gz"))), set(store.iterdir())
    with (store / "lock").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        done = run("agent", "purge", "--store", store)
        assert done.returncode == 6 and "another pyebpf writes" in done.stderr and set(store.iterdir()) == there
    (store / "notes.txt").write_text("mine")
    (store / "far.pb.gz").symlink_to("/etc/passwd")
    done = run("agent", "purge", "--store", store)
    assert done.returncode == 0 and "%d profiles" % kept in done.stdout and "2 files in it are not the agent's" in done.stderr
    assert {p.name for p in store.iterdir()} == {"notes.txt", "far.pb.gz"}
    for stranger in store.iterdir():
        stranger.unlink()
    for _ in range(2):  # also where there is none
        done = run("agent", "purge", "--store", store)
        assert done.returncode == 0 and "0 profiles" in done.stdout and not store.exists()
    assert run("agent", "purge", "all").returncode == 2


def test_purge_waits_to_be_ended(tmp_path):
    windows.hour(tmp_path / "store", minutes=1)
    with lib.started([lib.BINARY, "agent", "purge", "wait", "--store", tmp_path / "store"], stderr=subprocess.PIPE) as process:
        lib.until(lambda: not (tmp_path / "store").exists(), "the end of the store")
        time.sleep(0.2)
        assert process.poll() is None
        lib.stop(process, number=signal.SIGTERM)
        assert process.returncode == 0


def test_without_an_agent(tmp_path):
    done = run("agent", "status", "--socket", tmp_path / "none")
    assert done.returncode == 4 and "no agent answers at" in done.stderr


@pytest.mark.parametrize("text", ["127.0.0.1", ":80", "[::1:80", "127.0.0.1:x", "127.0.0.1:70000", "a" * 100 + ":1"])
def test_addresses_that_are_none(text):
    done = run("agent", "--check-config", "--listen", text)
    assert done.returncode == 2 and "--listen: want 127.0.0.1:7099" in done.stderr


def sending_metrics():
    """Of an agent that has a sink, without a server."""
    with tempfile.TemporaryDirectory() as folder, \
         lib.started([lib.BINARY, "agent", "-q", "--store", folder + "/store", "--socket", "", "--listen", "127.0.0.1:0", "--sink",
                      "clickhouse=http://127.0.0.1:1"], stderr=subprocess.DEVNULL) as process:
        other = Agent(pathlib.Path(folder), None)
        other.url = "http://127.0.0.1:%d" % lib.until(lambda: port_or_none(process.pid), "its port", 60)
        return lib.until(lambda: metrics_or_none(other), "its metrics", 60)


def port_or_none(pid):
    return next((port_of(pid) for _ in (0,) if listening(pid)), None)


def metrics_or_none(agent):
    with contextlib.suppress(OSError):
        return agent.metrics()
    return None


PROMTOOL = pathlib.Path(os.environ.get("PYEBPF_CACHE") or
                        pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "pyebpf") / "bin/promtool"
# What a server has seen for half an hour, and which alerts that is.
SEEN = """
rule_files: [%s]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {series: 'pyebpf_sink_owed{instance="a", sink="ch"}', values: '100x40'}
      - {series: 'pyebpf_sink_lag_seconds{instance="a", sink="ch"}', values: '1700+60x40'}
      - {series: 'pyebpf_sink_owed{instance="b", sink="ch"}', values: '1x40'}
      - {series: 'pyebpf_sink_lag_seconds{instance="b", sink="ch"}', values: '5x40'}
      - {series: 'pyebpf_sink_state{instance="a", sink="ch", state="held"}', values: '1x40'}
      - {series: 'pyebpf_sink_state{instance="b", sink="ch", state="held"}', values: '0x40'}
      - {series: 'pyebpf_sink_profiles_dropped_total{instance="a", sink="ch", reason="evicted"}', values: '0x20 3x20'}
      - {series: 'pyebpf_sink_owed_bytes{instance="a", sink="ch"}', values: '90x40'}
      - {series: 'pyebpf_sink_owed_bytes{instance="b", sink="ch"}', values: '10x40'}
      - {series: 'pyebpf_store_limit_bytes{instance="a"}', values: '100x40'}
      - {series: 'pyebpf_store_limit_bytes{instance="b"}', values: '100x40'}
      - {series: 'pyebpf_sender_restarts_total{instance="a"}', values: '0+1x40'}
      - {series: 'pyebpf_sender_restarts_total{instance="b"}', values: '1x40'}
    alert_rule_test:
"""
FIRING = """
      - eval_time: 30m
        alertname: %s
        exp_alerts:
          - exp_labels: {%s}
            exp_annotations: {summary: '%s'}
"""


@pytest.mark.skipif(not PROMTOOL.exists(), reason="no promtool (scripts/setup)")
def test_alerts_of_the_sinks_fire(tmp_path):
    """As Prometheus itself evaluates them: for the instance that is in trouble, and for no other."""
    rules = ROOT / "deploy/prometheus/pyebpf-alerts.yaml"
    checked = subprocess.run([PROMTOOL, "check", "rules", rules], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", check=False)
    assert checked.returncode == 0 and "SUCCESS" in checked.stdout, checked.stdout
    sink = "severity: %s, instance: a, sink: ch%s"
    alerts = [("PyebpfSinkBehind", sink % ("warning", ""), "ch of a is 58m 20s behind"),
              ("PyebpfSinkHeld", sink % ("warning", ", state: held"), "ch refuses a: login, address or tables"),
              ("PyebpfSinkDrops", sink % ("critical", ", reason: evicted"), "ch will never have 3 profiles of a: evicted"),
              ("PyebpfSpoolFills", sink % ("critical", ""), "What ch is owed fills the store of a: it is about to be lost"),
              ("PyebpfSenderEnds", "severity: warning, instance: a", "What sends to the sinks of a ends again and again")]
    (tmp_path / "test.yaml").write_text(SEEN % rules + "".join(FIRING % alert for alert in alerts))
    done = subprocess.run([PROMTOOL, "test", "rules", tmp_path / "test.yaml"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8",
                          check=False)
    assert done.returncode == 0 and "SUCCESS" in done.stdout, done.stdout


@lib.needs_root
def test_alerts_know_the_metrics(agent):
    """Each rule has what Prometheus wants of it, and asks for numbers that there are."""
    names = {re.match("[a-z_]+", n)[0] for n in agent.metrics()} | {"up"}
    names |= {re.match("[a-z_]+", n)[0] for n in sending_metrics()}
    rules = [r for g in yaml.safe_load((ROOT / "deploy/prometheus/pyebpf-alerts.yaml").read_text())["groups"] for r in g["rules"]]
    assert len(rules) == len({r["alert"] for r in rules}) >= 8
    for rule in rules:
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"} and rule["annotations"]["summary"]
        assert rule["labels"]["severity"] in ("warning", "critical") and re.fullmatch(r"\d+m", rule.get("for", "1m"))
        used = set(re.findall(r"\b(?:pyebpf_[a-z_]+|up)\b", rule["expr"]))
        assert used and used <= names, (rule["alert"], used - names)
        assert rule["expr"].count("(") == rule["expr"].count(")")


def test_the_unit():
    """Five capabilities, and what has to stay writable."""
    text = (ROOT / "deploy/systemd/pyebpf-agent.service").read_text()
    rows = [line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#")]
    unit = dict(rows)
    assert set(unit["CapabilityBoundingSet"].split()) == {"CAP_BPF", "CAP_PERFMON", "CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH", "CAP_CHECKPOINT_RESTORE"}
    for key, value in {"NoNewPrivileges": "yes", "ProtectSystem": "strict", "PrivateDevices": "yes", "MemoryDenyWriteExecute": "yes",
                       "LimitCORE": "0", "StateDirectory": "pyebpf", "RuntimeDirectory": "pyebpf", "ExecStart": "/usr/bin/pyebpf agent"}.items():
        assert unit[key] == value, key
    # systemd's own judgement, where it is there: 0 is shut tight, 10 is wide open
    if shutil.which("systemd-analyze"):
        done = subprocess.run(["systemd-analyze", "security", "--offline=true", ROOT / "deploy/systemd/pyebpf-agent.service"], stdout=subprocess.PIPE,
                              encoding="utf-8", check=False, timeout=60, env={"PATH": "/usr/bin", "LC_ALL": "C"})
        exposure = re.search(r"Overall exposure level for .*: ([0-9.]+)", done.stdout)
        assert exposure and float(exposure[1]) < 5, done.stdout
