# SPDX-License-Identifier: Apache-2.0
"""scripts/fleet-demo in short: three agents in network namespaces, a cluster that loses a shard on the way, a page and its picture."""
import base64
import gzip
import pathlib
import re
import subprocess
import sys

import pytest

import lib

ROOT = pathlib.Path(__file__).resolve().parents[2]


# one of each service
FUNCTIONS = "Cart.discounted", "work", "find"


def interfaces():
    return {p.name for p in pathlib.Path("/sys/class/net").iterdir()}


def run_demo(out, *options):
    """(stdout, stderr, what the page holds)"""
    before = interfaces()
    done = subprocess.run([sys.executable, ROOT / "scripts/fleet-demo", "--seconds", "0", "--out", out, *options], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", timeout=400, check=False)
    assert done.returncode == 0, done.stderr
    assert interfaces() == before
    assert (out / "fleet.png").read_bytes()[:4] == b"\x89PNG"
    page = (out / "fleet.html").read_text("utf-8")
    return done.stdout, done.stderr, gzip.decompress(base64.b64decode(re.search(r'id="profile">([A-Za-z0-9+/=]*)</script>', page)[1])).decode()


@lib.needs_root
@pytest.mark.slow
def test_fleet_demo(tmp_path):
    shown, told, held = run_demo(tmp_path / "out")
    said = re.search(r"is killed\n.*?(node-\d).* keeps what is for it\n.*is back\n.*nothing is owed to it any more\n"
                     r".*that of the three stores: (\d+) samples", told, re.S)
    assert said and int(said[2]) > 0, told
    assert {line.split()[0] for line in shown.split("LAST\n")[1].splitlines()[:3]} == {"reports", "search", "shop"}
    assert all('"%s"' % name in held for name in FUNCTIONS)
