# SPDX-License-Identifier: Apache-2.0
"""Pyroscope's push.v1, Parca's WriteRaw and OTLP, to doubles that decode them: the same values, the series' labels, and what the answers
of each mean. Servers that others wrote are in tests/peers."""
import collections
import gzip
import signal
import struct
import subprocess
import time

import pytest

import double
import lib
import windows
from protobuf import Pprof, fields, numbers
from test_sinks import FAST, send


def pushed(request):
    """(labels, profile) of the one series of a request to Pyroscope."""
    assert request.path == "/push.v1.PusherService/Push" and request.headers["Content-Type"] == "application/proto"
    (number, series), = fields(request.body)
    assert number == 1
    return series_of(series)


def series_of(series, inner=False):
    parts = fields(series)
    pairs = [v for n, v in parts if n == 1]
    if inner:
        (pairs,) = [[v for _, v in fields(p)] for p in pairs]
    (sample,) = [v for n, v in parts if n == 2]
    labels = [tuple(v.decode() for _, v in fields(p)) for p in pairs]
    assert len(dict(labels)) == len(labels)
    return dict(labels), dict(fields(sample))[1]


def written(request):
    """The same of a request to Parca."""
    assert request.path == "/parca.profilestore.v1alpha1.ProfileStoreService/WriteRaw"
    assert request.headers["Content-Type"] == "application/grpc-web+proto"
    flags, size = struct.unpack(">BI", request.body[:5])
    assert flags == 0 and size == len(request.body) - 5
    parts = dict(fields(request.body[5:]))
    assert parts[3] == 1
    return series_of(parts[2], inner=True)


def frame(flags, data):
    return struct.pack(">BI", flags, len(data)) + data


GOOD = {"pyroscope": 200, "parca": (200, {}, frame(0, b"") + frame(0x80, b"grpc-status:0\r\n"))}
DECODE = {"pyroscope": pushed, "parca": written}


def good(kind):
    return lambda request: GOOD[kind]


@pytest.mark.parametrize("kind", ["pyroscope", "parca"])
def test_value_by_value(kind, tmp_path):
    made = windows.hour(tmp_path / "store", minutes=20, container_id="0123456789ab", zone="a\"b")
    with double.Double(good(kind)) as server:
        done = send(tmp_path / "store", "%s=%s/base/,tenant=me" % (kind, server.url))
        assert (done.code, done.sent, done.requests) == (0, 40, 40), done.said
        got = collections.defaultdict(collections.Counter)
        for request in server.taken:
            assert request.path.startswith("/base/") and request.headers["X-Scope-OrgID"] == "me"
            request.path = request.path[len("/base"):]
            labels, profile = DECODE[kind](request)
            assert labels == {"__name__": "process_cpu", "service_name": labels["service_name"], "node": "node-1", "zone": "a\"b"}
            profile = Pprof(profile)
            assert not profile.labels
            got[labels["service_name"]].update(profile.totals())
    for service, stacks in made.sums.items():
        assert got[service] == {kind: sum(v[i] for v in stacks.values()) for i, kind in enumerate(windows.TYPES)}


def test_what_pyroscope_would_refuse_is_not_sent(tmp_path):
    windows.hour(tmp_path / "store", minutes=2)
    windows.write(tmp_path / "store", windows.Made(), "shop", windows.now_ns() - 58 * 60 * 10**9)
    with double.Double() as server:
        done = send(tmp_path / "store", "pyroscope=" + server.url)
    assert (done.sent, done.aside, done.owed) == (4, {"too_old": 1}, 0)


@pytest.mark.parametrize("answer, sent, retries, aside", [
    ((200, {"grpc-status": "8"}, b""), 2, 1, {}),
    ((200, {}, frame(0x80, b"grpc-message:x\r\ngrpc-status:14\r\n")), 2, 1, {}),
    ((200, {"grpc-status": "3"}, b""), 1, 0, {"refused": 1}),
    ((200, {}, frame(0x80, b"grpc-status: 16\r\n")), 2, 0, {}),
    (503, 2, 1, {}),
])
def test_errors_of_parca(answer, sent, retries, aside, tmp_path):
    windows.hour(tmp_path / "store", minutes=1)
    with double.Double(double.sequence(answer, then=GOOD["parca"])) as server:
        done = send(tmp_path / "store", "parca=" + server.url + FAST)
    assert (done.sent, done.retries, done.aside, done.owed) == (sent, retries, aside, 0), done.said


def test_errors_of_pyroscope(tmp_path):
    windows.hour(tmp_path / "store", minutes=1)
    bad = (400, {"Content-Type": "application/json"}, b'{"code":"invalid_argument","message":"duplicate label names"}')
    with double.Double(double.sequence(bad)) as server:
        done = send(tmp_path / "store", "pyroscope=" + server.url + FAST)
    assert (done.sent, done.aside, done.owed) == (1, {"refused": 1}, 0) and "duplicate label names" in done.said


# --- more than Pyroscope takes at once ---

@pytest.fixture(scope="module")
def big_window():
    """A window with more stacks than it takes: (its file, what it has)."""
    samples, start_ns = {}, windows.now_ns() - 60 * 10**9
    for i in range(16001):
        frames = [("big.mod%d.func_%d" % (i % 97, i % (7 * k + 5)), "/srv/big/mod%d.py" % (i % 97), k + i % 11) for k in range(8)]
        samples[("<module>", "/srv/big/main.py", i), *frames] = [i % 5 + 1, 1000 * i + 1, 1000 * i + 1, 0]
    return gzip.compress(windows.Profile(samples, start_ns, 60, {"service_name": "big", "node": "node-1"}).data(), 1), samples


def parts_of(requests):
    return [Pprof(pushed(request)[1]) for request in requests]


@pytest.fixture
def big(big_window, tmp_path):
    data, samples = big_window
    (tmp_path / "store").mkdir()
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(time.time() - 60))
    windows.put(tmp_path / "store", "%s-60s-big-00000001.pb.gz" % stamp, data)
    return samples


def added_up(parts):
    got = collections.defaultdict(lambda: [0] * len(windows.TYPES))
    for part in parts:
        for stack, values in part.stacks.items():
            got[stack] = [a + b for a, b in zip(got[stack], values)]
    return got


def test_a_large_window_goes_in_parts(big, tmp_path):
    with double.Double() as server:
        done = send(tmp_path / "store", "pyroscope=" + server.url)
        assert (done.code, done.sent, done.owed) == (0, 1, 0), done.said
        parts = parts_of(server.taken)
        assert len(parts) >= 2 and added_up(parts) == big
        for request, part in zip(server.taken, parts):
            # a sample may cross the line
            assert len(gzip.decompress(pushed(request)[1])) < (1 << 20) + 10000 and sum(map(bool, part.stacks)) <= 15000
            assert list(part.locations) == list(range(1, len(part.locations) + 1)), "ids"
            assert len(set(part.strings)) == len(part.strings) and part.strings[0] == ""
        assert len({part.time_ns for part in parts}) == len(parts), "the server may take them for the same"
        again = send(tmp_path / "store", "pyroscope=" + server.url)
        assert (again.sent, again.requests) == (0, 0)


@pytest.mark.parametrize("trouble", [503, (429, {}, b"slow down")])
def test_parts_that_were_taken_are_not_sent_again(trouble, big, tmp_path):
    with double.Double(double.sequence(200, trouble)) as server:
        done = send(tmp_path / "store", "pyroscope=" + server.url + FAST)
        assert (done.sent, done.retries, done.owed) == (1, 1, 0), done.said
        assert added_up(parts_of(server.taken)) == big


# --- parts, whatever happens between them ---

def exported(request):
    """{stack: values} of a request by OTLP, whose sums are those of its samples; the ids of its profiles."""
    assert request.path == "/v1development/profiles"
    parts = fields(request.body)
    (resource,) = (v for n, v in parts if n == 1)
    tables = collections.defaultdict(list)
    for number, entry in fields(dict(parts)[2]):
        tables[number].append(entry)
    names, lines = tables[5], []
    for location in tables[2]:
        lines.append([dict(fields(v)) for n, v in fields(location) if n == 4 or n == 3])
    functions = [dict(fields(f)) for f in tables[3]]
    stacks = []
    for entry in tables[7]:
        at = [(line[1], line.get(2, 0)) for location in numbers(dict(fields(entry)).get(1, b"")) for line in lines[location]]
        stacks.append(tuple((names[functions[f][1]].decode(), names[functions[f][3]].decode(), line) for f, line in reversed(at)))
    got, ids = collections.defaultdict(lambda: [0] * len(windows.TYPES)), []
    (scope,) = (v for n, v in fields(resource) if n == 2)
    for profile in (fields(v) for n, v in fields(scope) if n == 2):
        kind = dict(fields(dict(profile)[1]))
        at = windows.TYPES.index((names[kind[1]].decode(), names[kind[2]].decode()))
        ids.append(dict(profile)[7])
        for sample in (dict(fields(v)) for n, v in profile if n == 2):
            (value,) = numbers(sample[4])
            got[stacks[sample[1]]][at] += value
            assert {names[dict(fields(tables[6][i]))[1]] for i in numbers(sample[2])} == {b"process.pid", b"thread.id", b"thread.name"}
    return got, ids


def pushed_stacks(request):
    profile = Pprof(pushed(request)[1])
    return profile.stacks, [profile.time_ns]


def written_stacks(request):
    profile = Pprof(written(request)[1])
    return profile.stacks, [profile.time_ns]


STACKS = {"pyroscope": pushed_stacks, "parca": written_stacks, "otlp": exported}


def all_of(kind, requests):
    """The sum of requests, each of which has ids of its own."""
    total, ids = collections.defaultdict(lambda: [0] * len(windows.TYPES)), []
    for stacks, names in map(STACKS[kind], requests):
        ids += names
        for stack, values in stacks.items():
            total[stack] = [a + b for a, b in zip(total[stack], values)]
    assert len(set(ids)) == len(ids), "the server may take two for the same"
    return total


def too_large(kind, most):
    """Answers as a server does that takes no more than so many bytes, before compression."""
    def answer(request):
        body = request.body if kind == "otlp" else gzip.decompress(DECODE[kind](request)[1])
        return 413 if len(body) > most else GOOD.get(kind, 200)
    return answer


@pytest.mark.parametrize("kind", sorted(STACKS))
def test_what_is_too_large_goes_in_smaller_parts(kind, big, tmp_path):
    with double.Double(too_large(kind, 1300000)) as server:
        done = send(tmp_path / "store", "%s=%s%s" % (kind, server.url, FAST))
        assert (done.code, done.sent, done.owed, done.aside) == (0, 1, 0, {}), done.said
        # parts for Pyroscope are as small as that from the start
        assert (done.retries >= 1) == (kind != "pyroscope") and len(server.taken) >= 2
        assert all_of(kind, server.taken) == big


@pytest.mark.parametrize("kind", ["otlp", "parca"])
def test_a_window_that_is_too_large_in_any_part(kind, big, tmp_path):
    """Is set aside, and the next one goes as if nothing had been."""
    windows.write(tmp_path / "store", windows.Made(), "shop", windows.now_ns() - 60 * 10**9)
    with double.Double(lambda request: 413 if b"big" in request.body else GOOD.get(kind, 200)) as server:
        done = send(tmp_path / "store", "%s=%s%s" % (kind, server.url, FAST))
        assert len(server.taken) == 1
    assert (done.sent, done.owed, done.aside) == (1, 0, {"too_large": 1}), done.said


@pytest.mark.parametrize("kind", sorted(STACKS))
def test_killed_between_parts(kind, big, tmp_path):
    """SIGKILL after each of them: what was taken is not sent again, and the rest comes."""
    counts = []

    def answer(request):
        given = too_large(kind, 1300000)(request)
        if given == 413:
            return given
        counts.append(request)
        # nothing is answered any more once it is gone; it waits for this one with the one before written down
        if process and len(counts) % 2 == 0:
            process[0].send_signal(signal.SIGKILL)
            process.pop().wait(30)
            return double.RESET
        return given
    process, rounds = [], 0
    with double.Double(answer) as server:
        command = [lib.BINARY, "fleet", "send", "--store", tmp_path / "store", "--sink", "%s=%s" % (kind, server.url)]
        while True:
            before = len(server.taken)
            child = subprocess.Popen(command, stderr=subprocess.DEVNULL)
            process[:] = [child]
            child.wait(60)
            rounds += 1
            if child.returncode == 0:
                break
            assert child.returncode == -signal.SIGKILL and len(server.taken) == before + 1
        assert rounds >= 2 and send(tmp_path / "store", "%s=%s" % (kind, server.url)).requests == 0
        assert all_of(kind, server.taken) == big


def test_more_than_the_collector_takes_goes_in_parts(tmp_path):
    """It takes 20 MiB before compression, and throws away what has more."""
    samples = {(("<module>", "/srv/m.py", 1), ("long.%d." % i + "x" * 8000, "/srv/m%d.py" % i, i)): [1, i + 1, i + 1, 0] for i in range(2800)}
    (tmp_path / "store").mkdir()
    data = gzip.compress(windows.Profile(samples, windows.now_ns() - 60 * 10**9, 60, {"service_name": "big", "node": "node-1"}).data(), 1)
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(time.time() - 60))
    windows.put(tmp_path / "store", "%s-60s-big-00000001.pb.gz" % stamp, data)
    with double.Double() as server:
        done = send(tmp_path / "store", "otlp=" + server.url)
        assert (done.code, done.sent, done.owed, done.requests) == (0, 1, 0, 2), done.said
        assert max(len(request.body) for request in server.taken) < 17 << 20
        assert sum(len(request.body) for request in server.taken) > 20 << 20
        assert all_of("otlp", server.taken) == samples


# --- OTLP ---

def partial(rejected, message):
    return windows.field(1, windows.field(1, rejected) + windows.field(2, message))


@pytest.mark.parametrize("answer, sent, retries, aside", [
    ((200, {}, b""), 2, 0, {}),
    ((200, {}, partial(0, "a warning")), 2, 0, {}),
    ((200, {}, partial(3, "too \x1b[31mold")), 1, 0, {"refused": 1}),
    ((200, {}, b"\x0a\x7f"), 2, 0, {}),
    (429, 2, 1, {}),
    (503, 2, 1, {}),
    (400, 1, 0, {"refused": 1}),
    (404, 2, 0, {}),
])
def test_answers_of_otlp(answer, sent, retries, aside, tmp_path):
    windows.hour(tmp_path / "store", minutes=1)
    with double.Double(double.sequence(answer)) as server:
        done = send(tmp_path / "store", "otlp=" + server.url + FAST)
        assert {(r.path, r.headers["Content-Type"], r.headers["Content-Encoding"]) for r in server.requests} == {
            ("/v1development/profiles", "application/x-protobuf", "gzip")}
    assert (done.sent, done.retries, done.aside, done.owed) == (sent, retries, aside, 0), done.said
    assert "\x1b" not in done.said


@pytest.mark.parametrize("kind", ["pyroscope", "parca", "otlp"])
def test_a_damaged_window_is_set_aside(kind, tmp_path):
    """A sample at a location that is not there, a location in no function, a name that is not there, and one that ends early."""
    made = windows.hour(tmp_path / "store", minutes=1, services=("shop",))
    stack = (("f", "f.py", 1),)
    good_one = windows.Profile({stack: [1, 1, 1, 1]}, windows.now_ns(), 60, {"service_name": "bad"}).data()
    field = windows.field
    bad = [good_one + field(2, field(1, b"\x63") + field(2, b"\x01\x01\x01\x01")),
           good_one + field(4, field(1, 9) + field(4, field(1, 77))) + field(2, field(1, b"\x09") + field(2, b"\x01\x01\x01\x01")),
           good_one + b"\x12\x7f"]
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(windows.now_ns() // 10**9 - 60))
    for i, data in enumerate(bad):
        windows.put(tmp_path / "store", "%s-60s-bad-%08x.pb.gz" % (stamp, i), gzip.compress(data))
    with double.Double(good(kind) if kind in GOOD else None) as server:
        done = send(tmp_path / "store", "%s=%s" % (kind, server.url))
        assert len(server.taken) == len(made.windows)
    assert (done.sent, done.aside, done.owed) == (len(made.windows), {"unreadable": len(bad)}, 0), done.said
