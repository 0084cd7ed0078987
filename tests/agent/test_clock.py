# SPDX-License-Identifier: Apache-2.0
"""The wall clock is set while the agent runs: windows go on, none is lost or longer than it may be, and their times are those of the clock."""
import gzip
import re
import signal
import subprocess
import time

import pytest

import lib
from protobuf import Pprof

pytestmark = lib.needs_root

# the wall clock of one program, moved by what a file says
SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
int clock_gettime(clockid_t clock, struct timespec *at)
{
	static int (*real)(clockid_t, struct timespec *);
	long moved = 0;
	FILE *f;

	if (!real)
		real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
	if (clock == CLOCK_REALTIME && (f = fopen(getenv("MOVED"), "re"))) {
		if (fscanf(f, "%ld", &moved) != 1)
			moved = 0;
		fclose(f);
	}
	int err = real(clock, at);
	if (clock == CLOCK_REALTIME)
		at->tv_sec += moved;
	return err;
}
"""


def spans(store):
    """[(begin, end)] of windows, in seconds."""
    found = [Pprof(gzip.decompress(f.read_bytes())) for f in store.glob("*.pb.gz")]
    return sorted({(p.time_ns / 1e9, (p.time_ns + p.duration_ns) / 1e9) for p in found})


@pytest.mark.parametrize("moved", [3600, -3600, -1000000])
def test_the_clock_is_set(moved, tmp_path):
    (tmp_path / "shim.c").write_text(SHIM)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "shim.so", tmp_path / "shim.c", "-ldl"], check=True)
    (tmp_path / "agent_clock.py").write_text("while True: pass\n")
    offset, store = tmp_path / "moved", tmp_path / "store"
    offset.write_text("0")
    with lib.started([*lib.any_python(), tmp_path / "agent_clock.py"]), \
         lib.started([lib.BINARY, "agent", "--store", store, "--any-window", "--window", "2s", "--listen", "", "--socket", "", "--max-age", "0",
                      "--max-cpu", "100", "-r", "99"],
                     env={"LD_PRELOAD": str(tmp_path / "shim.so"), "MOVED": str(offset)}, stderr=subprocess.PIPE) as agent:
        lib.until(lambda: len(spans(store)) >= 3, "windows", 60)
        before = time.time()
        (tmp_path / "next").write_text(str(moved))
        (tmp_path / "next").rename(offset)
        lib.until(lambda: len([s for s in spans(store) if abs(s[1] - moved - time.time()) < 60]) >= 4, "windows after that", 60)
        after = time.time()
        (tmp_path / "next").write_text("0")  # what was there already is there again
        (tmp_path / "next").rename(offset)
        lib.until(lambda: len([s for s in spans(store) if s[0] > after + 1]) >= 3, "windows after that", 60)
        said = lib.stop(agent, number=signal.SIGTERM)
    found = spans(store)
    written = int(re.search(r"(\d+) windows, \d+ profiles, \d+ samples, \d+ lost, 0 profiles not written", said)[1])
    assert abs(written - len(found)) <= 2 and all(end - begin < 4.5 for begin, end in found), found
    there = [s for s in found if abs(s[0] - moved - before) < 100]
    # each from where the one before ended, and, where the machine let the agent, at the same moments of the clock as before
    assert len(there) >= 4 and all(abs(a[1] - b[0]) < 1e-6 for a, b in zip(there, there[1:])), there
    phases = sorted(end % 2 for _, end in there[:-1])
    wanted = sorted(end % 2 for _, end in set(found) - set(there))
    assert min(abs(a - b) for a in phases for b in wanted) < 0.2, (phases, wanted)
