# SPDX-License-Identifier: Apache-2.0
"""OTLP profiles against the real OpenTelemetry collector: what it writes to a file, resolved by its tables, is what was sent."""
import collections
import json

import pytest

import clickhouse
import lib
import peers
import served
import windows
from test_sinks import FAST, send

CONFIG = """receivers: {otlp: {protocols: {http: {endpoint: "127.0.0.1:%d"}}}}
exporters: {file: {path: %s, flush_interval: 100ms}}
service: {telemetry: {metrics: {level: none}}, pipelines: {profiles: {receivers: [otlp], exporters: [file]}}}
"""


class Collector:
    def __init__(self, folder, port):
        self.url, self.file = "http://127.0.0.1:%d" % port, folder / "profiles.json"

    def resources(self, count):
        """(attributes, profiles, tables) of so many windows, once it has written them."""
        def read():
            lines = self.file.read_text().splitlines(True) if self.file.exists() else []
            found = [(resource, line["dictionary"]) for line in map(json.loads, (l for l in lines if l.endswith("\n")))
                     for resource in line["resourceProfiles"]]
            return found if len(found) >= count else None
        for resource, dictionary in lib.until(read, "%d windows" % count):
            (scope,) = resource["scopeProfiles"]
            assert scope["scope"]["name"] == "pyebpf"
            tables = Tables(dictionary)
            yield tables.resource(resource["resource"]), scope["profiles"], tables


@pytest.fixture
def collector(tmp_path):
    port, folder = clickhouse.free_port(), tmp_path / "collector"
    folder.mkdir()
    (folder / "c.yaml").write_text(CONFIG % (port, folder / "profiles.json"))
    with served.running([peers.need("otelcol"), "--config", "c.yaml", "--feature-gates=service.profilesSupport"], port, folder):
        yield Collector(folder, port)


class Tables:
    """The dictionary of a request. Its first entries are zeros."""

    def __init__(self, dictionary):
        self.d = dictionary
        self.strings = dictionary["stringTable"]
        assert self.strings[0] == "" and not dictionary["stackTable"][0] and not dictionary["attributeTable"][0].get("value")
        assert all(not dictionary[t][0] for t in ("mappingTable", "locationTable", "functionTable"))

    def kind(self, value_type):
        return self.strings[value_type.get("typeStrindex", 0)], self.strings[value_type.get("unitStrindex", 0)]

    def frames(self, location):
        for line in reversed(self.d["locationTable"][location]["lines"]):
            function = self.d["functionTable"][line["functionIndex"]]  # zeros are left out
            yield self.strings[function.get("nameStrindex", 0)], self.strings[function.get("filenameStrindex", 0)], int(line.get("line", 0))

    def stack(self, sample):
        """As windows has it, outermost first."""
        locations = self.d["stackTable"][sample["stackIndex"]]["locationIndices"]
        return tuple(frame for location in reversed(locations) for frame in self.frames(location))

    def resource(self, resource):
        """The collector puts these into the table of strings, too."""
        return {self.strings[a["keyStrindex"]]: self.strings[a["value"]["stringValueStrindex"]] for a in resource["attributes"]}

    def attributes(self, sample):
        for index in sample["attributeIndices"]:
            attribute = self.d["attributeTable"][index]
            (value,) = attribute["value"].values()
            yield self.strings[attribute["keyStrindex"]], value


def test_value_by_value(collector, tmp_path):
    made = windows.hour(tmp_path / "store", minutes=2, services=("shop", *windows.HOSTILE), container_id="0123456789ab", zone="a b")
    done = send(tmp_path / "store", "otlp=" + collector.url)
    assert (done.code, done.sent, done.requests, done.owed) == (0, *2 * [len(made.windows)], 0), done.said
    got = collections.defaultdict(lambda: collections.defaultdict(lambda: [0] * len(windows.TYPES)))
    ids = set()
    for resource, profiles, tables in collector.resources(len(made.windows)):
        assert resource == {"service.name": resource["service.name"], "host.name": "node-1", "container.id": "0123456789ab", "zone": "a b"}
        for profile in profiles:
            kind = tables.kind(profile["sampleType"])
            period = tables.kind(profile.get("periodType", {})), int(profile.get("period", 0))
            assert period == ((("", ""), 0) if kind[0] == "off_cpu" else (kind, 0) if kind[0] == "wall" else
                              (("cpu", "nanoseconds"), windows.PERIOD_NS))
            assert int(profile["durationNano"]) == 60 * 10**9 and int(profile["timeUnixNano"]) % 10**9 == 0
            ids.add(profile["profileId"])
            for sample in profile["samples"]:
                assert dict(tables.attributes(sample)) == {"process.pid": "77", "thread.id": "1", "thread.name": "worker-1"}
                (value,) = sample["values"]
                got[resource["service.name"]][tables.stack(sample)][windows.TYPES.index(kind)] += int(value)
    assert got == made.sums
    assert len(ids) == len(made.windows) * len(windows.TYPES)


def test_what_it_refuses(collector, tmp_path):
    """A path that is not there holds the sink, and nothing is thrown away."""
    windows.hour(tmp_path / "store", minutes=1)
    done = send(tmp_path / "store", "otlp=%s/nowhere%s" % (collector.url, FAST), duration="2s")
    assert (done.sent, done.owed, done.aside) == (0, 2, {}) and "404" in done.said
