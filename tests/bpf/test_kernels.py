# SPDX-License-Identifier: Apache-2.0
"""Other kernels than this machine's, in QEMU (scripts/vmtest): the oldest that Debian 12 has, with few
programs; with PYEBPF_LONG=1 all kernels and all programs."""
import os
import pathlib
import subprocess

import pytest

import pythons

ROOT = pathlib.Path(__file__).resolve().parents[2]
VMTEST = ROOT / "scripts" / "vmtest"
LONG = os.environ.get("PYEBPF_LONG") == "1"


def names():
    listing = subprocess.run([VMTEST, "--list"], stdout=subprocess.PIPE, encoding="utf-8", check=True)
    return [line.split("\t")[0] for line in listing.stdout.splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("kernel", names() if LONG else ["6.1"])
def test_kernel(kernel):
    environment = {**os.environ, "PYEBPF_BUILD": str(pythons.BUILD)}
    done = subprocess.run([VMTEST] + ["--short"] * (not LONG) + [kernel], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, encoding="utf-8", errors="replace", env=environment,
                          check=False)
    name, release, verdict, path = done.stdout.rstrip("\n").split("\t")
    if verdict == "skipped":
        pytest.skip("kernel %s: %s" % (kernel, path))
    assert (done.returncode, name, verdict) == (0, kernel, "ok"), done.stderr[-4000:]
    print(release, path)
