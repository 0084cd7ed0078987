# SPDX-License-Identifier: Apache-2.0
"""A real ClickHouse cluster on loopback: three shards, each a server of its own, from the unpacked Debian packages in
the cache (scripts/setup). 18.16 is old, and it is what Debian has."""
import contextlib
import os
import pathlib
import re
import signal
import socket
import subprocess
import urllib.error
import urllib.request

import lib

ROOT = pathlib.Path(__file__).resolve().parents[2]
CACHE = pathlib.Path(os.environ.get("PYEBPF_CACHE") or
                     pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "pyebpf")
FILES = CACHE / "bin/clickhouse"
CONFIG = """<yandex>
<logger><level>warning</level><log>{dir}/log</log><errorlog>{dir}/errors</errorlog></logger>
<http_port>{http}</http_port><tcp_port>{tcp}</tcp_port><interserver_http_port>{inter}</interserver_http_port>
<listen_host>{listen}</listen_host><max_concurrent_queries>100</max_concurrent_queries>
<mark_cache_size>67108864</mark_cache_size><uncompressed_cache_size>0</uncompressed_cache_size>
<path>{dir}/data/</path><tmp_path>{dir}/tmp/</tmp_path><user_files_path>{dir}/files/</user_files_path>
<users_config>{dir}/users.xml</users_config><default_profile>default</default_profile>
<default_database>default</default_database><timezone>UTC</timezone>
<remote_servers><pyebpf>{shards}</pyebpf></remote_servers></yandex>"""
SHARD = "<shard><replica><host>127.0.0.1</host><port>%d</port></replica></shard>"
# The second user is for the tests of logins.
USERS = """<yandex><profiles><default><max_memory_usage>2000000000</max_memory_usage>
<distributed_directory_monitor_sleep_time_ms>50</distributed_directory_monitor_sleep_time_ms></default></profiles>
<users><default><password></password><networks><ip>{clients}</ip></networks><profile>default</profile><quota>default</quota></default>
<agent><password>pass word</password><networks><ip>{clients}</ip></networks><profile>default</profile><quota>default</quota></agent>
</users><quotas><default/></quotas></yandex>"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Shard:
    def __init__(self, folder, ports, shards, listen, clients):
        self.folder, self.url = folder, "http://127.0.0.1:%d" % ports["http"]
        self.process = None
        for name in ("data", "tmp", "files"):
            (folder / name).mkdir(parents=True)
        (folder / "config.xml").write_text(CONFIG.format(dir=folder, shards=shards, listen=listen, **ports))
        (folder / "users.xml").write_text(USERS.format(clients=clients))

    def start(self):
        libraries = "%s/usr/lib/x86_64-linux-gnu:%s/lib/x86_64-linux-gnu" % (FILES, FILES)
        self.process = subprocess.Popen(
            [FILES / "usr/sbin/clickhouse-server", "--config-file", self.folder / "config.xml"], cwd=self.folder,
            env={"LD_LIBRARY_PATH": libraries}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=(self.folder / "stderr").open("ab"), start_new_session=True)

    def kill(self):
        if self.process:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait(30)
            self.process = None

    def is_ready(self):
        assert self.process.poll() is None, (self.folder / "stderr").read_text() + (self.folder / "errors").read_text()
        with contextlib.suppress(OSError):
            return urllib.request.urlopen(self.url + "/ping", timeout=5).status == 200
        return False

    def sql(self, text, **settings):
        """The answer's rows, split at tabs."""
        query = "&".join("%s=%s" % item for item in settings.items())
        request = urllib.request.Request("%s/?%s" % (self.url, query), data=text.encode())
        try:
            answer = urllib.request.urlopen(request, timeout=60).read().decode()
        except urllib.error.HTTPError as error:
            raise AssertionError("%s: %s" % (text, error.read().decode())) from None
        return [line.split("\t") for line in answer.splitlines()]


class Cluster:
    """listen: the address; clients: who may ask. Beyond loopback only in a network namespace of one's own."""

    def __init__(self, folder, count=3, listen="127.0.0.1", clients="127.0.0.1"):
        ports = [{name: free_port() for name in ("http", "tcp", "inter")} for _ in range(count)]
        shards = "".join(SHARD % p["tcp"] for p in ports)
        self.shards = [Shard(folder / ("shard%d" % i), p, shards, listen, clients) for i, p in enumerate(ports)]
        self.url = self.shards[0].url

    def start(self):
        for shard in self.shards:
            shard.start()
        for shard in self.shards:
            lib.until(shard.is_ready, "a shard", 60)
        for shard in self.shards:
            for statement in statements((ROOT / "deploy/clickhouse/cluster.sql").read_text()):
                shard.sql(statement)

    def stop(self):
        for shard in self.shards:
            shard.kill()

    def sql(self, text, **settings):
        return self.shards[0].sql(text, **settings)

    def empty(self):
        """Nothing in it, as after the start."""
        for shard in self.shards:
            if not shard.process:
                shard.start()
                lib.until(shard.is_ready, "a shard", 60)
            for table in ("profiles_local", "stacks_local"):
                shard.sql("TRUNCATE TABLE %s" % table)

    def settle(self, rows, table="profiles", within=60):
        """Wait until so many rows are there."""
        self.settle_on("SELECT count() FROM %s FINAL" % table, rows, within)

    def settle_on(self, query, number, within=60):
        lib.until(lambda: int(self.sql(query)[0][0]) >= number, "%d by %s" % (number, query), within)
        # what a stack's hash stands for goes another way
        lib.until(lambda: self.sql("SELECT count() FROM (SELECT DISTINCT stack FROM profiles ARRAY JOIN stacks AS stack) "
                                   "WHERE stack GLOBAL NOT IN (SELECT stack FROM stacks)") == [["0"]], "the names of stacks", within)


def statements(script):
    return [s for s in re.sub(r"--.*", "", script).split(";") if s.strip()]

