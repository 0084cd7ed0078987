# SPDX-License-Identifier: Apache-2.0
"""Pyroscope's sink against a server on Pyroscope's official API module: what its generated code and google/pprof make of a
push. It is a double: nothing is said of the real server's limits, storage or queries."""
import urllib.request

import pytest

import clickhouse
import peers
import served
import windows
from protobuf import Pprof
from test_sinks import send


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
