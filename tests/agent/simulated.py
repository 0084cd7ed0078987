# SPDX-License-Identifier: Apache-2.0
"""Simulated agents (bench/fleet_sim): the exporter, the sink and the requests of real ones, over made-up stacks."""
import json
import pathlib
import subprocess

import fleet_sums
import lib


def run(sink, agents, windows, sums, connections=8, period_ms=0):
    """{service: {(function, ...): (samples, ns)}} of what they have sent, all of which was taken."""
    sim = subprocess.run([pathlib.Path(lib.BINARY).parent / "bench/fleet_sim", sink, str(agents), str(windows), str(period_ms), "40", str(connections), sums],
                         stdout=subprocess.PIPE, encoding="utf-8", check=True, timeout=600)
    said = [json.loads(line) for line in sim.stdout.splitlines()]
    assert [w["pushes"] for w in said] == [agents] * windows
    for w in said:
        assert w["due_max_ms"] >= w["sent_max_ms"] > 0 and bool(w["prepare_cpu_ms"]) == bool(w["late_max_ms"]) == bool(period_ms)
    sent = fleet_sums.read(sums)
    assert len(sent) == 10 and all(len(stacks) >= 40 for stacks in sent.values())
    return sent
