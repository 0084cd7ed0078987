# SPDX-License-Identifier: Apache-2.0
"""A real Parca: starting it, and what its query API adds up."""
import base64
import json
import time
import urllib.parse
import urllib.request

import peers
import served
from protobuf import Pprof

CONFIG = "object_storage: {bucket: {type: FILESYSTEM, config: {directory: %s}}}\n"
# with one CPU every merge fails
ENV = {"GOMAXPROCS": "2"}


def running(folder, port, listen="127.0.0.1"):
    """The server, as served.running() has it. @folder is its own."""
    folder.mkdir()
    (folder / "p.yaml").write_text(CONFIG % (folder / "objects"))
    command = [peers.need("parca"), "--config-path=p.yaml", "--http-address=%s:%d" % (listen, port), "--storage-path=data",
               "--debuginfo-cache-dir=debuginfo", "--debuginfod-upstream-servers=", "--profile-share-server=127.0.0.1:1"]
    return served.running(command, port, folder, **ENV)


def stamp(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def merged(url, query, since_s=7200):
    """The sum of what a query selects, a pprof file."""
    now = time.time()
    asked = {"mode": "MODE_MERGE", "report_type": "REPORT_TYPE_PPROF", "merge.query": query, "merge.start": stamp(now - since_s),
             "merge.end": stamp(now + 60)}
    with urllib.request.urlopen("%s/api/profiles/query?%s" % (url, urllib.parse.urlencode(asked)), timeout=60) as answer:
        return base64.b64decode(json.load(answer)["pprof"])


def sums(url, query):
    return Pprof(merged(url, query)).stacks
