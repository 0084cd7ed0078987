# SPDX-License-Identifier: Apache-2.0
"""The agent killed at any moment: what it said it has written is there, whole, and the catalogue knows it."""
import gzip
import json
import pathlib
import random
import re
import signal
import subprocess
import time

import lib

pytestmark = lib.needs_root
ROUNDS = 100 if lib.LONG else 6


def run(*args):
    return subprocess.run([lib.BINARY, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
                          check=False, timeout=120)


def written(log):
    """Profiles of the windows that it said it has written."""
    return sum(int(n) for n in re.findall(r"window \d+: (\d+) profiles", log.read_text()))


def test_killed_at_random_moments(tmp_path):
    """Each time some windows of a second after it began; then another one goes on with the same store."""
    seed = random.randrange(1 << 32)
    rng, store, log = random.Random(seed), tmp_path / "store", tmp_path / "log"
    path = tmp_path / "agent_crash.py"
    path.write_text("while True: pass\n")
    said = before = 0
    with lib.started([*lib.any_python(), path]):
        for n in range(ROUNDS):
            with log.open("w") as out, \
                 lib.started([lib.BINARY, "agent", "--store", store, "--any-window", "--window", "1s", "--listen", "", "--socket", "", "-r", "99"],
                             stderr=out) as agent:
                lib.until(lambda: written(log), "a window", 60)
                time.sleep(rng.random() * 1.5)
                agent.send_signal(signal.SIGKILL)
                agent.wait(30)
            said += written(log)
            files = sorted(store.glob("*.pb.gz"))
            # at most the windows at hand are more than it has said
            assert len(files) >= said and len(files) >= before, "round %d of seed %d" % (n, seed)
            said = before = len(files)
            for f in files:
                assert len(gzip.decompress(f.read_bytes())) > 100, (f, seed)
            rows = json.loads(run("fleet", "services", "--store", store, "--json").stdout)
            assert sum(r["profiles"] for r in rows) == len(files), seed
            catalogue = store / "catalogue.sqlite"
            if n % 3 == 1:
                catalogue.unlink()
            elif n % 3 == 2:
                catalogue.write_bytes(catalogue.read_bytes()[:rng.randrange(4096)])
        done = run("agent", "--store", store, "--listen", "", "--socket", "", "-d", "1s")
        assert done.returncode == 0 and not list(store.glob(".*")), done.stderr
    rows = json.loads(run("fleet", "services", "--store", store, "--json").stdout)
    assert sum(r["profiles"] for r in rows) == len(list(store.glob("*.pb.gz"))) >= said


def test_the_budget_lowers_the_rate(tmp_path):
    """Samples are left out, not below a tenth; what they stand for is not lost."""
    path = tmp_path / "agent_budget.py"
    path.write_text("def burn():\n    while True: pass\nburn()\n")
    with lib.started([*lib.any_python(), path]) as program, \
         lib.started([lib.BINARY, "agent", "--store", tmp_path / "store", "--listen", "", "--socket", tmp_path / "socket", "-r", "1000",
                      "--any-window", "--window", "1s"], stderr=subprocess.PIPE) as agent:
        def status():
            done = run("agent", "status", "--json", "--socket", tmp_path / "socket")
            return json.loads(done.stdout) if done.returncode == 0 else {}
        got = lib.until(lambda: (lambda s: s if s.get("samples_skipped_total", 0) > 100 and s["windows_total"] >= 2 else None)(status()),
                        "samples that are left out", 60)
        assert 100 <= got["sampling_hz"] < 1000
        own = pathlib.Path("/proc/%d/stat" % program.pid).read_text().rsplit(")", 1)[1].split()
        lib.stop(agent, number=signal.SIGTERM)
    top = json.loads(run("fleet", "top", "--store", tmp_path / "store", "--service", "agent_budget", "--json").stdout)
    counted, used = sum(r["self_ns"] for r in top["rows"]), (int(own[11]) + int(own[12])) / 100 * 1e9
    samples = top["calls"]
    # each sample left out is stood for: far more time than the samples taken have at 1 ms each, and not more than there was
    assert samples * 1e6 < counted < 1.5 * used + 5e9, (samples, counted, used)
