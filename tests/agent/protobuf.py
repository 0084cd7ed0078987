# SPDX-License-Identifier: Apache-2.0
"""Protocol buffers without a schema, and what a pprof profile says."""
import collections
import gzip


def fields(data):
    """[(number, value)], a value is a number or bytes; of fixed64 the bytes."""
    out, at = [], 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7f) << shift
            shift += 7
            if byte < 0x80:
                return value
    while at < len(data):
        tag = varint()
        assert tag & 7 in (0, 1, 2), tag
        value = 8 if tag & 7 == 1 else varint()
        if tag & 7:
            at += value
            assert at <= len(data)
            value = data[at - value:at]
        out.append((tag >> 3, value))
    return out


def numbers(data):
    """Of a packed field."""
    return [sum((byte & 0x7f) << 7 * i for i, byte in enumerate(part)) for part in varints(data)]


def varints(data):
    part = b""
    for byte in data:
        part += bytes([byte])
        if byte < 0x80:
            yield part
            part = b""


def repeated(value):
    """Of a repeated number: packed, or one of several that are not."""
    return [value] if isinstance(value, int) else numbers(value)


class Pprof:
    """types: [(type, unit)]; stacks: {((name, file, line), ...): [value of each type]}, outermost first, threads added up;
    labels: how many there are on samples; comments: of the profile, lines."""

    def __init__(self, data):
        parts = fields(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
        self.strings = [v.decode() for n, v in parts if n == 6]
        self.types = [(self.strings[t.get(1, 0)], self.strings[t.get(2, 0)]) for t in (dict(fields(v)) for n, v in parts if n == 1)]
        self.time_ns, self.duration_ns, self.period = (next((v for n, v in parts if n == field), 0) for field in (9, 10, 12))
        self.comments = [self.strings[at] for n, v in parts if n == 13 for at in repeated(v)]
        functions = {f[1]: f for f in (dict(fields(v)) for n, v in parts if n == 5)}
        self.locations = {}
        for location in (fields(v) for n, v in parts if n == 4):
            lines = [dict(fields(v)) for n, v in location if n == 4]
            self.locations[dict(location)[1]] = [
                (self.strings[functions[line[1]].get(2, 0)], self.strings[functions[line[1]].get(4, 0)], line.get(2, 0)) for line in lines]
        self.stacks, self.labels = collections.defaultdict(lambda: [0] * len(self.types)), 0
        for sample in (fields(v) for n, v in parts if n == 2):
            self.add(sample)

    def add(self, sample):
        ids = [i for n, v in sample if n == 1 for i in repeated(v)]
        values = [i for n, v in sample if n == 2 for i in repeated(v)]
        assert len(values) == len(self.types)
        self.labels += sum(n == 3 for n, _ in sample)
        held = self.stacks[tuple(frame for i in reversed(ids) for frame in reversed(self.locations[i]))]
        held[:] = [a + b for a, b in zip(held, values)]

    def totals(self):
        """{(type, unit): sum}"""
        return {kind: sum(values[i] for values in self.stacks.values()) for i, kind in enumerate(self.types)}
