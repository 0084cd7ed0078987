# SPDX-License-Identifier: Apache-2.0
"""What bench/fleet_sim has sent, and the same as `pyebpf fleet` gives it back."""
import collections
import re


def read(path):
    """{service: {(function, ...): (samples, ns)}}, stacks whose functions are the same added up."""
    sums = collections.defaultdict(lambda: collections.defaultdict(lambda: (0, 0)))
    for line in path.read_text().splitlines():
        stack, samples, ns = line.rsplit(" ", 2)
        service, *frames = stack.split(";")
        held = sums[service][tuple(frames)]
        sums[service][tuple(frames)] = held[0] + int(samples), held[1] + int(ns)
    return sums


def asked(collapsed):
    """{(function, ...): ns} of what fleet flame -f collapsed printed."""
    sums = collections.Counter()
    for line in collapsed.splitlines():
        stack, ns = line.rsplit(" ", 1)
        frames = [re.sub(r" \(.*", "", frame) for frame in stack.split(";")]
        sums[tuple(f for f in frames if f.startswith("package."))] += int(ns)
    return sums
