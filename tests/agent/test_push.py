# SPDX-License-Identifier: Apache-2.0
"""Pyroscope's push.v1 and Parca's WriteRaw, to doubles that decode them: the same values, the series' labels, and what the answers
of each mean. Servers that others wrote are in tests/peers."""
import collections
import struct

import pytest

import double
import windows
from protobuf import Pprof, fields
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
