# SPDX-License-Identifier: Apache-2.0
"""The real Parca: what is pushed by WriteRaw, and by OTLP in gRPC's frames, comes back from its query API as the sum."""
import collections
import struct
import urllib.request

import pytest

import clickhouse
import double
import lib
import parca
import peers
import simulated
import windows
from test_fleet_demo import FUNCTIONS, run_demo
from test_service_names import selector
from test_sinks import send

# name:type:unit:period:unit, and the values of windows.TYPES that it holds
QUERY = "process_cpu:%s:%s:cpu:nanoseconds:delta"


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    port = clickhouse.free_port()
    with parca.running(tmp_path_factory.mktemp("parca") / "server", port):
        yield "http://127.0.0.1:%d" % port


def of_type(made, service, kind):
    at = windows.TYPES.index(kind)
    return {stack: values[at] for stack, values in made.sums[service].items() if values[at]}


def asked(url, query):
    return {stack: value for stack, (value,) in parca.sums(url, query).items() if value}


def test_value_by_value(url, tmp_path):
    made = windows.hour(tmp_path / "store", minutes=20, services=("shop", "söme name"), zone="a b")
    hostile = windows.hour(tmp_path / "hostile", minutes=1, services=windows.HOSTILE)
    done = send(tmp_path / "store", "parca=" + url)
    assert (done.code, done.sent, done.owed) == (0, 40, 0), done.said
    for service in made.sums:
        for kind in windows.TYPES[1:]:
            got = asked(url, QUERY % kind + '{service_name="%s", zone="a b"}' % service)
            assert got == of_type(made, service, kind)
    done = send(tmp_path / "hostile", "parca=" + url)
    assert (done.code, done.sent, done.owed) == (0, len(windows.HOSTILE), 0), done.said
    for service in windows.HOSTILE:
        assert asked(url, QUERY % windows.TYPES[1] + selector(service)) == of_type(hostile, service, windows.TYPES[1]), service


def by_lines(stacks):
    """{lines of a stack: sum}"""
    got = collections.Counter()
    for stack, value in stacks.items():
        got[tuple(line for _, _, line in stack)] += value
    return got


def test_otlp(url, tmp_path):
    """What the OTLP sink sends, to Parca's receiver, which checks it by rules of its own. Parca 0.28.0 takes the function before the
    one that a line names, as if its table did not begin with an entry of zeros, so names are not compared here; test_otlp.py does."""
    made = windows.hour(tmp_path / "store", minutes=3, services=("otel",))
    with double.Double() as server:
        assert send(tmp_path / "store", "otlp=" + server.url).owed == 0
        bodies = [request.body for request in server.taken]
    for body in bodies:
        request = urllib.request.Request(
            url + "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export",
            data=struct.pack(">BI", 0, len(body)) + body, headers={"Content-Type": "application/grpc-web+proto", "X-Grpc-Web": "1"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert answer.headers.get("grpc-status", "0") == "0", str(answer.headers)
            assert b"grpc-status: 0" in answer.read().replace(b"grpc-status:0", b"grpc-status: 0")
    got = asked(url, 'pyebpf:cpu:nanoseconds:cpu:nanoseconds:delta{service_name="otel"}')
    assert by_lines(got) == by_lines(of_type(made, "otel", ("cpu", "nanoseconds")))


def test_simulated_agents(url, tmp_path):
    """A thousand of them in the long form: the merged profile of each service is exactly their sum, stack by stack."""
    wanted = simulated.run("parca=" + url, 1000 if lib.LONG else 60, 2 if lib.LONG else 1, tmp_path / "sums")
    for service, stacks in wanted.items():
        for kind in (("samples", "count"), ("cpu", "nanoseconds")):
            got = collections.Counter()
            for stack, value in asked(url, QUERY % kind + '{service_name="%s"}' % service).items():
                got[tuple(name for name, _, _ in stack)] += value
            # Parca answers for samples with a period in what that stands for
            assert got == {stack: values[1] for stack, values in stacks.items()}, (service, kind)


@lib.needs_root
def test_fleet_demo(tmp_path):
    peers.need("parca")
    _, _, held = run_demo(tmp_path / "out", "--engine", "parca")
    assert all('"%s"' % name in held for name in FUNCTIONS)
