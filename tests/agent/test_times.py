# SPDX-License-Identifier: Apache-2.0
"""Times that fleet is asked for: any length, on a clock that is put forward and back twice a year."""
import calendar
import json
import os
import subprocess
import time

import pytest

import lib
import windows

CHANGE = calendar.timegm((2025, 10, 26, 1, 0, 0))  # in Berlin it is 02:00 to 03:00 twice
DAY = 86400


def top(store, *args, zone="UTC"):
    return subprocess.run([lib.BINARY, "fleet", "top", "--store", store, "--json", *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          encoding="utf-8", check=False, timeout=60, env=dict(os.environ, TZ=zone))


def calls(store, *args, zone="UTC"):
    done = top(store, *args, zone=zone)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["calls"]


@pytest.mark.parametrize("since", ["1h", "90m", "1.5h", "1d", "7d", "1000000h", "5124095h"])
def test_any_length(since, tmp_path):
    """Also what is longer ago than 1970."""
    made = windows.hour(tmp_path, services=("shop",), minutes=5)
    assert calls(tmp_path, "--since", since) == made.total("shop")[0]


@pytest.mark.parametrize("since, said", [("0", "has to be longer ago"), ("", "want 30"), ("1h30m", "want 30"), ("-1h", "want 30"), ("yesterday", "want 30"),
                                         ("1H", "want 30"), ("0x10", "want 30"), ("99999999h", "too large")])
def test_what_is_no_length(since, said, tmp_path):
    windows.hour(tmp_path, services=("shop",), minutes=1)
    done = top(tmp_path, "--since", since)
    assert done.returncode == 2 and said in done.stderr


def test_the_clock_of_the_wall_changes(tmp_path):
    """Four hours around it, a window a minute: each hour has sixty, wherever it is asked."""
    made = [windows.Made() for _ in range(4)]
    for minute in range(240):
        windows.write(tmp_path, made[minute // 60], "shop", (CHANGE - 2 * 3600 + minute * 60) * 10**9)
    for zone in ("UTC", "Europe/Berlin", "America/Caracas"):
        for hour in range(4):
            ago = int(time.time()) - (CHANGE + (hour - 2) * 3600)
            got = calls(tmp_path, "--since", "%ds" % (ago - 10), "--until", "%ds" % (ago - 3600 + 40), zone=zone)
            assert got == made[hour].total("shop")[0], (zone, hour)
        listed = subprocess.run([lib.BINARY, "fleet", "services", "--store", tmp_path, "--since", "%ds" % (int(time.time()) - CHANGE + DAY)],
                                stdout=subprocess.PIPE, encoding="utf-8", check=True, env=dict(os.environ, TZ=zone)).stdout
        assert "2025-10-25T23:00:00Z  2025-10-26T03:00:00Z" in listed
