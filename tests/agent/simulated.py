# SPDX-License-Identifier: Apache-2.0
"""Simulated agents (bench/fleet_sim): the exporter, the sink and the requests of real ones, over made-up stacks."""
import json
import pathlib
import subprocess

import fleet_sums
import lib


def run(sink, agents, windows, sums, connections=8):
    """{service: {(function, ...): (samples, ns)}} of what they have sent, all of which was taken."""
    sim = subprocess.run([pathlib.Path(lib.BINARY).parent / "bench/fleet_sim", sink, str(agents), str(windows), "0", "40", str(connections), sums],
                         stdout=subprocess.PIPE, encoding="utf-8", check=True, timeout=600)
    assert [json.loads(line)["pushes"] for line in sim.stdout.splitlines()] == [agents] * windows
    sent = fleet_sums.read(sums)
    assert len(sent) == 10 and all(len(stacks) >= 40 for stacks in sent.values())
    return sent
