# SPDX-License-Identifier: Apache-2.0
"""The same tables, inserts and questions as test_clickhouse.py, by the ClickHouse of today that chdb has (scripts/setup): one server, in
a process, behind a few lines of HTTP (chdb_server.py)."""
import collections
import json
import os
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

import clickhouse
import lib
import windows
from test_clickhouse import fleet, folded, refused, rows_of, sums_of, wanted_folded
from test_sinks import send

HERE = os.path.dirname(os.path.abspath(__file__))
CHDB = clickhouse.CACHE / "bin/chdb"


class Modern:
    def __init__(self, url):
        self.url = url

    def sql(self, text, **settings):
        """The answer's rows, as Shard.sql() of clickhouse.py has them."""
        query = "&".join("%s=%s" % item for item in settings.items())
        try:
            answer = urllib.request.urlopen(urllib.request.Request("%s/?%s" % (self.url, query), data=text.encode()), timeout=60).read()
        except urllib.error.HTTPError as error:
            raise AssertionError("%s: %s" % (text, error.read().decode())) from None
        return [line.split("\t") for line in answer.decode().splitlines()]

    def empty(self):
        for table in ("profiles", "stacks"):
            self.sql("TRUNCATE TABLE %s" % table)


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    command = [sys.executable, os.path.join(HERE, "chdb_server.py"), tmp_path_factory.mktemp("chdb"), clickhouse.ROOT / "deploy/clickhouse/schema.sql"]
    with lib.started(command, stdout=subprocess.PIPE, env={"PYTHONPATH": str(CHDB)}) as process:
        yield Modern("http://127.0.0.1:%d" % int(process.stdout.readline()))


@pytest.fixture
def modern(running):
    running.empty()
    return running


def test_value_by_value(modern, tmp_path):
    made = windows.hour(tmp_path / "store", minutes=20, services=("shop", "cart", "söme \"name\""), zone="a b\"c")
    done = send(tmp_path / "store", "clickhouse=" + modern.url)
    # each setting that a push has is known there
    assert (done.sent, done.retries, done.owed) == (len(made.windows), 0, 0), done.said
    assert sums_of(modern) == made.sums and int(modern.sql("SELECT count() FROM profiles FINAL")[0][0]) == rows_of(made)
    labels = modern.sql("SELECT DISTINCT lv[indexOf(lk, 'zone')], lv[indexOf(lk, 'node')], node FROM profiles")
    assert labels == [["a b\"c", "node-1", "node-1"]]


def test_sent_again(modern, tmp_path):
    made = windows.hour(tmp_path / "store", minutes=5)
    for _ in range(3):
        assert send(tmp_path / "store", "clickhouse=" + modern.url).owed == 0
        (tmp_path / "store/outbox.sqlite").unlink()
    assert sums_of(modern) == made.sums
    top = json.loads(fleet("top", "--server", modern.url, "--service", "shop", "--json", "-n", "0"))
    assert top["calls"] == made.total("shop")[0]


@pytest.mark.parametrize("query", ['{service_name="shop"}', '{zone="a", service_name!="cart"}', '{node=~"node-[0-1]"}', '{zone!~"a|c", nothing=""}'])
def test_asked_as_the_store_is(modern, query, tmp_path):
    """What fleet says of it is what it says of the store that was sent."""
    nodes = []
    (tmp_path / "all").mkdir()
    for i in range(3):
        nodes.append(windows.hour(tmp_path / str(i), minutes=4, node="node-%d" % i, zone="ab"[i % 2]))
        assert send(tmp_path / str(i), "clickhouse=" + modern.url).owed == 0
        for name in nodes[-1].windows:
            (tmp_path / "all" / name).hardlink_to(tmp_path / str(i) / name)

    def both(*args):
        return [json.loads(fleet(args[0], *where, "--json", *args[1:])) for where in (("--server", modern.url), ("--store", tmp_path / "all"))]

    def rows(top):
        return top["calls"], sorted((r["function"], r["calls"], r["self_ns"], r["total_ns"]) for r in top["rows"])
    there, here = both("top", "--query", query, "-n", "0")
    assert rows(there) == rows(here) and there["calls"] > 0
    there, here = ({r["service"]: (r["profiles"], r["first"], r["last"]) for r in answer} for answer in both("services"))
    assert there == here and set(there) == {"shop", "cart"}
    flame = collections.Counter()
    for stack, value in folded(fleet("flame", "--server", modern.url, "--service", "shop", "-o", "-", "-f", "collapsed", "-q")).items():
        frames = [frame.partition(" (")[0] for frame in stack.split(";")]
        flame[tuple(frames[frames.index("<module>"):])] += value
    assert flame == wanted_folded(nodes, "shop")


def test_tables_that_are_not_there(modern, tmp_path):
    windows.hour(tmp_path / "store", minutes=1)
    modern.sql("RENAME TABLE stacks TO elsewhere")
    try:
        done = refused(tmp_path / "store", "clickhouse=%s,max-backoff=1s" % modern.url, "Code: 60")
        assert (done.sent, done.owed) == (0, 2)
    finally:
        modern.sql("RENAME TABLE elsewhere TO stacks")
    assert send(tmp_path / "store", "clickhouse=" + modern.url).sent == 2
