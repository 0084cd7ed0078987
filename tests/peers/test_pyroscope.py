# SPDX-License-Identifier: Apache-2.0
"""Pyroscope's sink against a server on Pyroscope's official API module: what its generated code and google/pprof make of a
push. It is a double: nothing is said of the real server's limits, storage or queries."""
import collections
import json
import re
import time
import urllib.request

import pytest

import clickhouse
import peers
import served
import windows
from protobuf import Pprof
from test_push import big_window  # noqa: F401 pylint: disable=unused-import
from test_sinks import FAST, send


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    port = clickhouse.free_port()
    with served.running([peers.need("pyrodouble"), "-addr", "127.0.0.1:%d" % port], port, tmp_path_factory.mktemp("pyroscope")):
        yield "http://127.0.0.1:%d" % port


def merged(url, selector, kind="process_cpu:cpu:nanoseconds:cpu:nanoseconds"):
    """What the server adds up, of the last two hours."""
    end = windows.now_ns() // 10**6
    body = (windows.field(1, kind) + windows.field(2, selector) + windows.field(3, end - 7200000) + windows.field(4, end))
    request = urllib.request.Request(url + "/querier.v1.QuerierService/SelectMergeProfile", data=body,
                                     headers={"Content-Type": "application/proto"})
    return Pprof(urllib.request.urlopen(request, timeout=60).read())


def test_value_by_value(url, tmp_path):
    made = windows.hour(tmp_path / "store", minutes=20, services=("shop", "söme \"name\""))
    done = send(tmp_path / "store", "pyroscope=" + url)
    assert (done.code, done.sent, done.owed) == (0, 40, 0), done.said
    got = merged(url, '{service_name="shop"}')
    assert tuple(got.types) == windows.TYPES
    assert got.stacks == made.sums["shop"] and not got.labels
    hostile = windows.hour(tmp_path / "hostile", minutes=1, services=windows.HOSTILE)
    done = send(tmp_path / "hostile", "pyroscope=" + url)
    assert (done.code, done.sent, done.owed) == (0, len(windows.HOSTILE), 0), done.said
    for service in windows.HOSTILE: # the double's selectors have no escapes
        chosen = re.sub(r'["\\\\\x00-\x1f]|[^ -~]', ".", re.sub(r"[$(){}|+*.?\[\]]", r"[\g<0>]", service))
        assert merged(url, '{service_name=~"(?s)%s"}' % chosen).stacks == hostile.sums[service], service


def test_flame_graph(url, tmp_path):
    """The query that its page asks: what the levels have as their own values is what was sent."""
    made = windows.hour(tmp_path / "store", minutes=3, services=("flames",))
    assert send(tmp_path / "store", "pyroscope=" + url).owed == 0
    end = windows.now_ns() // 10**6
    body = {"profileTypeID": "process_cpu:cpu:nanoseconds:cpu:nanoseconds", "labelSelector": '{service_name="flames"}',
            "start": str(end - 3600000), "end": str(end), "maxNodes": "16384"}
    request = urllib.request.Request(url + "/querier.v1.QuerierService/SelectMergeStacktraces", data=json.dumps(body).encode(),
                                     headers={"Content-Type": "application/json"})
    graph = json.load(urllib.request.urlopen(request, timeout=60))["flamegraph"]
    own, cpu = collections.Counter(), windows.TYPES.index(("cpu", "nanoseconds"))
    for level in graph["levels"]:
        values = list(map(int, level["values"]))
        for i in range(0, len(values), 4):
            own[graph["names"][values[i + 3]]] += values[i + 2]
    wanted = collections.Counter()
    for stack, values in made.sums["flames"].items():
        wanted[stack[-1][0]] += values[cpu]
    assert +own == +wanted and int(graph["total"]) == wanted.total()


def test_a_large_window(url, big_window, tmp_path):  # noqa: F811 pylint: disable=redefined-outer-name
    """It refuses more than 16,000 samples, as the real one says it does; what it adds up of the parts is the window."""
    data, samples = big_window
    (tmp_path / "store").mkdir()
    windows.put(tmp_path / "store", "%s-60s-big-00000001.pb.gz" % time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(time.time() - 60)), data)
    done = send(tmp_path / "store", "pyroscope=" + url)
    assert (done.sent, done.owed, done.aside) == (1, 0, {}) and done.requests >= 2, done.said
    assert merged(url, '{service_name="big"}').stacks == samples


def test_what_it_refuses(url, tmp_path):
    """Its error comes in its own words."""
    names = {"label_%d" % i: "x" for i in range(29)}
    windows.hour(tmp_path / "store", minutes=1, services=("many",), **names)
    done = send(tmp_path / "store", "pyroscope=" + url + FAST)
    assert (done.sent, done.aside, done.owed) == (0, {"refused": 1}, 0) and "max_label_names_per_series" in done.said
