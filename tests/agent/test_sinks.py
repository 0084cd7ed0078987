# SPDX-License-Identifier: Apache-2.0
"""What is owed to a server comes there: through outages, errors of every kind and kills, each window once, and all are
counted. The servers here are doubles; test_clickhouse.py has real ones."""
import collections
import json
import os
import random
import re
import shutil
import signal
import subprocess
import time
import urllib.request

import pytest

import clickhouse
import double
import lib
import rowbinary
import windows

FAST = ",max-backoff=1s,timeout=1s"
LINE = r"sink (\S+): (\d+) windows sent, (\d+) bytes, (\d+) requests, (\d+) retries, (\d+) still owed"


class Done:
    """The end of a `fleet send`."""

    def __init__(self, done):
        self.code, self.said = done.returncode, done.stderr
        found = re.search(LINE, self.said)
        self.sent, self.bytes, self.requests, self.retries, self.owed = map(int, found.groups()[1:]) if found else [None] * 5
        self.aside = {name: int(n) for n, name in re.findall(r"(\d+) windows set aside: (\w+)", self.said)}


def send(store, *sinks, duration="20s"):
    args = [a for s in sinks for a in ("--sink", s)]
    return Done(subprocess.run([lib.BINARY, "fleet", "send", "--store", store, "-d", duration, *args], stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, encoding="utf-8", check=False, timeout=60))


def sums(requests):
    """{(service, type): sum} of what was taken, each profile once; and how many times each came."""
    got, times = collections.Counter(), collections.Counter()
    for request in requests:
        if "profiles" not in request.path:
            continue
        for row in rowbinary.profiles(request.body):
            key = row["profile"], row["type"]
            times[key] += 1
            if times[key] == 1:
                got[row["service"], row["type"]] += sum(row["values"])
    return got, times


def wanted(made):
    return collections.Counter({(service, "%s/%s" % kind): total for service, stacks in made.sums.items()
                                for i, kind in enumerate(windows.TYPES) if (total := sum(v[i] for v in stacks.values()))})


def test_everything_once(tmp_path):
    made = windows.hour(tmp_path / "store")
    with double.Double() as server:
        done = send(tmp_path / "store", "clickhouse=" + server.url)
        assert (done.code, done.sent, done.owed, done.retries) == (0, 110, 0, 0), done.said
        got, times = sums(server.taken)
        assert got == wanted(made) and set(times.values()) == {1}
        for request in server.taken:
            assert "insert_deduplication_token=" in request.path and "async_insert=1&wait_for_async_insert=1&" in request.path
            assert request.headers["User-Agent"].startswith("pyebpf/")
        again = send(tmp_path / "store", "clickhouse=" + server.url)
        assert (again.code, again.sent, again.requests) == (0, 0, 0)
    assert sorted(f.name for f in (tmp_path / "store").iterdir() if f.suffix == ".gz") == sorted(made.windows)


def test_an_outage_loses_nothing(tmp_path):
    """55 minutes of windows wait behind a server that refuses, resets, is silent and breaks off, then all come in order."""
    made = windows.hour(tmp_path / "store")
    troubles = [503, double.RESET, 500, (429, {}, b"slow down"), double.SILENT, double.SLOW, 502]
    with double.Double(double.sequence(*troubles)) as server:
        done = send(tmp_path / "store", "clickhouse=" + server.url + FAST, duration="50s")
        got, times = sums(server.taken)
    assert (done.code, done.sent, done.owed, done.aside) == (0, 110, 0, {}), done.said
    # of a connection that was open already libcurl takes a reset for its end, and asks again by itself
    assert len(troubles) - 1 <= done.retries <= len(troubles) and got == wanted(made) and set(times.values()) == {1}


def test_nobody_there(tmp_path):
    made = windows.hour(tmp_path / "store", minutes=3)
    done = send(tmp_path / "store", "clickhouse=http://127.0.0.1:1" + FAST, duration="2s")
    assert (done.code, done.sent, done.owed) == (6, 0, 6) and done.retries >= 1
    assert "no answer: " in done.said and "6 windows were not sent" in done.said
    with double.Double() as server:
        assert send(tmp_path / "store", "clickhouse=http://127.0.0.1:1 %s%s" % (server.url, FAST)).sent == 6
        assert sums(server.taken)[0] == wanted(made)


def test_retry_after(tmp_path):
    windows.hour(tmp_path / "store", minutes=1, services=("shop",))
    with double.Double(double.sequence((429, {"Retry-After": "2"}, b""))) as server:
        assert send(tmp_path / "store", "clickhouse=" + server.url + FAST).sent == 1
        first, second = server.requests[0].at, server.requests[1].at
    assert second - first >= 2


def bad_profile(marker, status):
    """Refuses what has a row of this service."""
    return lambda request: status if "profiles" in request.path and marker in request.body else 200


@pytest.mark.parametrize("status, why", [(400, "refused"), (413, "too_large"), (500, "poison")])
def test_a_window_that_nobody_takes(status, why, tmp_path):
    """It is found, set aside and counted; the others are sent."""
    made = windows.hour(tmp_path / "store", minutes=4)
    bad = windows.Made()
    windows.write(tmp_path / "store", bad, "poisoned", windows.now_ns() - 90 * 10**9)

    def answer(request):
        given = bad_profile(b"poisoned", status)(request)
        # windows keep coming, as they do, and are taken: it is not the server
        if given == 500:
            windows.write(tmp_path / "store", made, "shop", windows.now_ns() - 60 * 10**9, seed=len(made.windows))
        return given
    with double.Double(answer) as server:
        done = send(tmp_path / "store", "clickhouse=" + server.url + FAST, duration="50s")
        late = send(tmp_path / "store", "clickhouse=" + server.url)  # one that came when it was about to end
        got, times = sums(server.taken)
    assert done.code == 6 and done.aside == {why: 1} and done.owed == 0, done.said
    assert got == wanted(made) and set(times.values()) == {1} and done.sent + late.sent == len(made.windows)
    assert "is set aside (%s)" % why in done.said


def test_damaged_windows(tmp_path):
    made = windows.hour(tmp_path / "store", minutes=2)
    torn = windows.write(tmp_path / "store", windows.Made(), "torn", windows.now_ns() - 60 * 10**9)
    data = (tmp_path / "store" / torn).read_bytes()
    windows.put(tmp_path / "store", torn, data[:len(data) // 2])
    windows.put(tmp_path / "store", "20261122T000000Z-60s-x-00000000.pb.gz", os.urandom(1000))
    (tmp_path / "store" / "20261122T000000Z-60s-y-00000000.pb.gz").symlink_to("/etc/shadow")
    with double.Double() as server:
        done = send(tmp_path / "store", "clickhouse=" + server.url)
        assert sums(server.taken)[0] == wanted(made)
    assert (done.sent, done.aside, done.owed) == (4, {"unreadable": 2}, 0), done.said


def test_too_old(tmp_path):
    made = windows.hour(tmp_path / "store", minutes=2)
    windows.write(tmp_path / "store", windows.Made(), "shop", windows.now_ns() - 7200 * 10**9)
    with double.Double() as server:
        done = send(tmp_path / "store", "clickhouse=%s,max-age=1h" % server.url)
        assert sums(server.taken)[0] == wanted(made)
    assert (done.sent, done.aside) == (4, {"too_old": 1})


def test_removed_before_it_was_sent(tmp_path):
    made = windows.hour(tmp_path / "store", minutes=30)
    removed = threading_remove(tmp_path / "store", made.windows[5:15])
    with double.Double(removed) as server:
        done = send(tmp_path / "store", "clickhouse=" + server.url + ",max-backoff=1s")
    assert done.sent + done.aside.get("evicted", 0) == 60 and done.aside["evicted"] == 10 and done.owed == 0, done.said


def threading_remove(store, names):
    """The first push fails for good so that its windows are let go of, and some of them are removed then."""
    state = []

    def answer(request):
        if not state:
            state.append(1)
            for name in names:
                (store / name).unlink()
            return 500
        return 200
    return answer


def test_two_sinks_do_not_wait_for_each_other(tmp_path):
    made = windows.hour(tmp_path / "store", minutes=10)
    with double.Double() as good, double.Double(lambda request: 503) as bad:
        done = send(tmp_path / "store", "clickhouse=%s,name=good" % good.url, "clickhouse=%s,name=bad%s" % (bad.url, FAST), duration="3s")
        assert sums(good.taken)[0] == wanted(made)
        assert re.search(r"sink good: 20 windows sent.* 0 still owed", done.said) and re.search(r"sink bad: 0 windows sent.* 20 still owed", done.said)
        bad.answers = lambda request: 200
        send(tmp_path / "store", "clickhouse=%s,name=good" % good.url, "clickhouse=%s,name=bad" % bad.url)
        assert sums(bad.taken)[0] == wanted(made) and sums(good.taken)[0] == wanted(made)


def test_killed_at_any_moment(tmp_path):
    """SIGKILL again and again: what was acknowledged and written down is not sent again, and nothing is missing in the end."""
    made, rng = windows.hour(tmp_path / "store", minutes=40), random.Random(8)
    with double.Double(lambda request: (time.sleep(0.01), 200)[1]) as server:
        command = [lib.BINARY, "fleet", "send", "--store", tmp_path / "store", "--sink", "clickhouse=" + server.url]
        for i in range(40):
            process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
            time.sleep(rng.random() * 0.15)
            process.kill()
            process.wait(30)
            windows.write(tmp_path / "store", made, "cart", windows.now_ns(), seed=i)
        done = send(tmp_path / "store", "clickhouse=" + server.url)
        assert done.code == 0 and done.owed == 0, done.said
        got, times = sums(server.taken)
    assert got == wanted(made)
    # a push that was on its way when it was killed came perhaps twice; no other
    assert sum(1 for n in times.values() if n > 1) < len(times) / 2


def test_what_was_sent_is_known_to_one_only(tmp_path):
    windows.hour(tmp_path / "store", minutes=1)
    with double.Double(lambda request: double.SILENT) as server:
        command = [lib.BINARY, "fleet", "send", "--store", tmp_path / "store", "--sink", "clickhouse=" + server.url]
        with lib.started(command, stderr=subprocess.PIPE):
            lib.until(lambda: server.requests, "a request")
            other = send(tmp_path / "store", "clickhouse=" + server.url)
    assert other.code == 6 and "is locked" in other.said, other.said
    (tmp_path / "store/outbox.sqlite").write_bytes(b"x" * 5000)
    for name in ("outbox.sqlite-wal", "outbox.sqlite-shm"):
        (tmp_path / "store" / name).unlink(missing_ok=True)
    with double.Double() as server:
        assert send(tmp_path / "store", "clickhouse=" + server.url).sent == 2


# --- TLS and logins ---

def openssl(folder, *args):
    subprocess.run(["openssl", *args], cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    openssl(folder, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", "ca.key", "-out", "ca.pem",
            "-subj", "/CN=test", "-days", "30")
    (folder / "names").write_text("subjectAltName=DNS:localhost\n")
    for name, days in (("server", "30"), ("client", "30")):
        openssl(folder, "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", name + ".key", "-out", name + ".csr",
                "-subj", "/CN=localhost")
        openssl(folder, "x509", "-req", "-in", name + ".csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", days,
                "-extfile", "names", "-out", name + ".pem")
    openssl(folder, "x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "names",
            "-not_before", "20200101000000Z", "-not_after", "20200201000000Z", "-out", "expired.pem") if new_openssl() else expired(folder)
    return folder


def new_openssl():
    version = subprocess.run(["openssl", "version"], stdout=subprocess.PIPE, encoding="utf-8", check=True).stdout
    return tuple(map(int, re.search(r" (\d+)\.(\d+)", version).groups())) >= (3, 4)


def expired(folder):
    """An older openssl sets such dates only as a certificate authority."""
    (folder / "index").write_text("")
    (folder / "serial").write_text("77\n")
    (folder / "ca.cnf").write_text("[ca]\ndefault_ca=x\n[x]\ndatabase=index\nserial=serial\nnew_certs_dir=.\ndefault_md=sha256\n"
                                   "policy=p\n[p]\ncommonName=supplied\n")
    openssl(folder, "ca", "-batch", "-config", "ca.cnf", "-in", "server.csr", "-cert", "ca.pem", "-keyfile", "ca.key", "-extfile", "names",
            "-startdate", "20200101000000Z", "-enddate", "20200201000000Z", "-out", "expired.pem", "-notext")


def test_tls(certificates, tmp_path):
    windows.hour(tmp_path / "store", minutes=1)
    with double.Double(context=double.server_context(certificates, "server.pem", "server.key")) as server:
        done = send(tmp_path / "store", "clickhouse=" + server.url + FAST, duration="3s")
        assert done.sent == 0 and re.search("no answer: .*certificate", done.said), done.said
        assert send(tmp_path / "store", "clickhouse=%s,ca-file=%s/ca.pem" % (server.url, certificates)).sent == 2
    windows.hour(tmp_path / "other", minutes=1)
    with double.Double(context=double.server_context(certificates, "expired.pem", "server.key")) as server:
        done = send(tmp_path / "other", "clickhouse=%s,ca-file=%s/ca.pem%s" % (server.url, certificates, FAST), duration="3s")
        assert done.sent == 0 and "expired" in done.said, done.said
        assert send(tmp_path / "other", "clickhouse=%s,insecure=true" % server.url).sent == 2


def test_mutual_tls(certificates, tmp_path):
    windows.hour(tmp_path / "store", minutes=1)
    with double.Double(context=double.server_context(certificates, "server.pem", "server.key", "ca.pem")) as server:
        sink = "clickhouse=%s,ca-file=%s/ca.pem" % (server.url, certificates)
        assert send(tmp_path / "store", sink + FAST, duration="3s").sent == 0
        done = send(tmp_path / "store", "%s,cert-file=%s/client.pem,key-file=%s/client.key" % (sink, certificates, certificates))
        assert done.sent == 2, done.said


def secret(path, text, mode=0o600):
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_token_that_changes(tmp_path):
    windows.hour(tmp_path / "store", minutes=1)
    token = secret(tmp_path / "token", "old\n")

    def answer(request):
        if request.headers.get("Authorization") == "Bearer new":
            return 200
        secret(token, "new\n")
        return 401
    with double.Double(answer) as server:
        done = send(tmp_path / "store", "clickhouse=%s,token-file=%s,tenant=me%s" % (server.url, token, FAST))
        assert done.sent == 2 and "the server answered 401" in done.said, done.said
        assert server.taken[0].headers["X-Scope-OrgID"] == "me"
    assert "Bearer" not in done.said and "old" not in done.said


def test_a_password(tmp_path):
    windows.hour(tmp_path / "store", minutes=1)
    password = secret(tmp_path / "password", "pass word")
    with double.Double() as server:
        assert send(tmp_path / "store", "clickhouse=%s,user=me,password-file=%s" % (server.url, password)).sent == 2
        assert server.taken[0].headers["X-ClickHouse-User"] == "me" and server.taken[0].headers["X-ClickHouse-Key"] == "pass word"


def test_a_secret_that_all_may_read(tmp_path):
    windows.hour(tmp_path / "store", minutes=1)
    token = secret(tmp_path / "token", "x", 0o644)
    with double.Double() as server:
        done = send(tmp_path / "store", "clickhouse=%s,token-file=%s%s" % (server.url, token, FAST), duration="3s")
        assert done.sent == 0 and not server.requests and "every user may read it" in done.said


def test_no_redirection(tmp_path):
    """Nor does a token go where a server says."""
    windows.hour(tmp_path / "store", minutes=1)
    token = secret(tmp_path / "token", "x")
    with double.Double() as other, double.Double(lambda request: (307, {"Location": other.url + request.path}, b"")) as server:
        done = send(tmp_path / "store", "clickhouse=%s,token-file=%s%s" % (server.url, token, FAST), duration="3s")
        assert done.sent == 0 and done.owed == 2 and server.requests and not other.requests


@pytest.mark.parametrize("sink, said", [
    ("clickhouse", "want TYPE=URL"),
    ("nothing=http://x", "there is no sink nothing"),
    ("clickhouse=ftp://x", "begins with http:// or https://"),
    ("clickhouse=http://me:secret@x", "no name and password in the address"),
    ("clickhouse=http://x,colour=red", "there is no colour"),
    ("clickhouse=http://x,timeout=soon", "timeout: want a time"),
    ("clickhouse=http://x,cert-file=a", "cert-file and key-file go together"),
    ("clickhouse=http://x,insecure=yes", "insecure is true or false"),
    ("clickhouse=http://x,interval=1h", "interval: at most 10m"),
])
def test_refusals(sink, said, tmp_path):
    done = send(tmp_path, sink)
    assert done.code == 2 and said in done.said and "secret" not in done.said


# --- the agent ---

def status(socket):
    return json.loads(subprocess.run([lib.BINARY, "agent", "status", "--json", "--socket", socket], stdout=subprocess.PIPE, encoding="utf-8",
                                     check=True).stdout)


def settled(state):
    return state if state["sinks"][0]["sent_total"] and not state["sinks"][0]["owed"] and state["sinks"][0]["state"] == "idle" else None


@lib.needs_root
def test_the_agent_sends(any_python, tmp_path):
    """Through an outage of the server, a reload and its own end; what fleet sees in the store is what came."""
    program = tmp_path / "sink_test_burn.py"
    program.write_text("while True:\n    sum(range(10000))\n")
    config = tmp_path / "agent.yaml"
    with double.Double(double.sequence(503)) as server, lib.started([*any_python.command, program]):
        config.write_text("window: 10s\nsinks:\n  - type: clickhouse\n    url: %s\n    max-backoff: 1s\n" % server.url)
        listen = "127.0.0.1:%d" % clickhouse.free_port()
        with lib.started([lib.BINARY, "agent", "--store", tmp_path / "store", "--config", config, "-r", "99", "--listen", listen,
                          "--socket", tmp_path / "socket"], stderr=subprocess.PIPE) as agent:
            lib.until(lambda: sums(server.taken)[0], "a profile", 60)
            with open("/proc/%d/task/%d/children" % (agent.pid, agent.pid), encoding="utf-8") as children:
                sender = int(children.read().split()[0])
            socket = tmp_path / "socket"
            state = lib.until(lambda: settled(status(socket)), "everything sent", 60)
            (sink,) = state["sinks"]
            assert (sink["name"], sink["type"], sink["state"], sink["owed"], sink["last_error"]) == ("clickhouse", "clickhouse", "idle", 0, "")
            assert sink["seen_total"] == sink["sent_total"] > 0 and sink["retries_total"] == 1 and not any(sink["dropped"].values())
            text = subprocess.run([lib.BINARY, "agent", "status", "--socket", socket], stdout=subprocess.PIPE, encoding="utf-8", check=True).stdout
            assert re.search(r"^sink      clickhouse: (idle|sending), \d+ sent, \d+ wait", text, re.M)
            metrics = urllib.request.urlopen("http://%s/metrics" % listen, timeout=10).read().decode()
            assert re.search(r'^pyebpf_sink_sent_total{sink="clickhouse"} [1-9]', metrics, re.M)
            assert 'pyebpf_sink_requests_total{sink="clickhouse",code="5xx"} 1\n' in metrics
            assert lib.status_field(sender, "CapEff") == lib.status_field(sender, "CapPrm") == "0" * 16
            said = lib.stop(agent, number=signal.SIGTERM)
    assert not os.path.exists("/proc/%d" % sender)
    assert "sink clickhouse: the server answered 503" in said
    got = sums(server.taken)[0]
    profiles = [f for f in (tmp_path / "store").glob("*-sink_test_burn-*.pb.gz")]
    assert profiles and got["sink_test_burn", "samples/count"] > 0
    assert send(tmp_path / "store", "clickhouse=http://127.0.0.1:1").requests == 0


@lib.needs_root
def test_windows_of_an_interval_go_together(any_python, tmp_path):
    """Fewer pushes than windows, and at the end none is left behind."""
    program = tmp_path / "sink_test_burn.py"
    program.write_text("while True:\n    sum(range(10000))\n")
    store = tmp_path / "store"
    with double.Double() as server, lib.started([*any_python.command, program]), \
         lib.started([lib.BINARY, "agent", "--store", store, "--window", "10s", "-r", "99", "--listen", "", "--socket", tmp_path / "socket",
                      "--include", "sink_test_burn", "--sink", "clickhouse=%s,interval=10m" % server.url], stderr=subprocess.PIPE) as agent:
        lib.until(lambda: len(list(store.glob("*-sink_test_burn-*.pb.gz"))) >= 3, "three windows", 60)
        lib.stop(agent, number=signal.SIGTERM)
        held = list(store.glob("*-sink_test_burn-*.pb.gz"))
        got, times = sums(server.taken)
    assert got["sink_test_burn", "samples/count"] > 0 and len({profile for profile, _ in times}) == len(held)
    assert 2 <= sum("profiles" in request.path for request in server.taken) < len(held)


@lib.needs_root
def test_sending_counts_in_the_budget(tmp_path):
    """What the sender takes is the agent's, and while it takes much, fewer samples are taken."""
    store, socket = tmp_path / "store", tmp_path / "socket"
    with double.Double() as server, \
         lib.started([lib.BINARY, "agent", "-q", "--store", store, "--listen", "", "--socket", socket, "-r", "100", "--max-cpu", "5",
                      "--sink", "clickhouse=" + server.url], stderr=subprocess.DEVNULL) as agent:
        lib.until(socket.exists, "its socket", 60)
        lib.until(lambda: status(socket)["sampling_hz"] == 100, "the full rate", 180)
        with open("/proc/%d/task/%d/children" % (agent.pid, agent.pid), encoding="utf-8") as children:
            sender = int(children.read().split()[0])
        before = status(socket)
        made = windows.hour(tmp_path / "made", minutes=55, services=tuple("service_%d" % i for i in range(30)))
        os.kill(sender, signal.SIGSTOP)  # so that it finds all of them at once
        for name in made.windows:
            (tmp_path / "made" / name).rename(store / name)
        os.kill(sender, signal.SIGCONT)
        # the budget is looked at once a second: all of it may be sent by then
        lib.until(lambda: status(socket)["sampling_hz"] < before["sampling_hz"], "fewer samples", 120)
        lib.until(lambda: status(socket)["sinks"][0]["sent_total"] >= len(made.windows), "all of them", 120)
        after = status(socket)
        with open("/proc/%d/stat" % sender, encoding="ascii") as stat:
            used = sum(map(int, stat.read().rsplit(")", 1)[1].split()[11:13])) / os.sysconf("SC_CLK_TCK")
        assert before["sender_cpu_seconds_total"] < after["sender_cpu_seconds_total"] <= used + 0.1
        assert after["agent_cpu_seconds_total"] > after["sender_cpu_seconds_total"]
        assert 0 < after["sender_memory_bytes"] < after["resident_memory_bytes"]
        text = subprocess.run([lib.BINARY, "agent", "status", "--socket", socket], stdout=subprocess.PIPE, encoding="utf-8", check=True).stdout
        assert re.search(r"^cpu       .*% sending; the budget is \d+\.00%$", text, re.M), text
        # a sender that dies is started again, and its time is not forgotten
        os.kill(sender, signal.SIGKILL)
        assert status(socket)["sender_cpu_seconds_total"] >= after["sender_cpu_seconds_total"]


@lib.needs_root
def test_a_file_with_mistakes(tmp_path):
    config = tmp_path / "agent.yaml"
    for text, said in (("sinks:\n  - type: clickhouse\n    url: http://x\n    colour: red\n", "line 4: sink: there is no colour"),
                       ("sinks:\n  - url: http://x\n", "line 2: sink: of which type?"),
                       ("sinks: http://x\n", "line 1: sinks is a list")):
        config.write_text(text)
        done = subprocess.run([lib.BINARY, "agent", "--check-config", "--config", config], stderr=subprocess.PIPE, encoding="utf-8", check=False)
        assert done.returncode == 2 and said in done.stderr, done.stderr
