# SPDX-License-Identifier: Apache-2.0
"""How large a pprof file becomes. The load is that of a node of 16 CPUs, 60 % busy, sampled 99 times a second for a minute: 57,000 samples of
4,000 stacks some thirty deep, of 20 processes, the common ones often and most of them once or twice."""
import os
import pathlib
import random
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "agent"))

import protobuf  # noqa: E402  pylint: disable=wrong-import-position

PYEBPF = pathlib.Path(os.environ.get("PYEBPF_BUILD", HERE.parent.parent / "build")) / "pyebpf"
PERIOD_NS = 10101010
NODE_MINUTE = 200_000  # bytes, what it may have
WORDS = ("load parse request handle session query user cache index build model field value node tree graph token event queue worker task stream "
         "buffer socket client server config schema table row cursor render template view router filter sort merge split encode decode").split()


def varint(n):
    out = bytearray()
    while n >= 0x80:
        out.append(n & 0x7f | 0x80)
        n >>= 7
    return bytes(out + bytes([n]))


def message(number, *fields):
    """A field of bytes; those within are (number, value), or bytes as they are."""
    body = b"".join(f if isinstance(f, bytes) else varint(f[0] << 3) + varint(f[1]) for f in fields)
    return varint(number << 3 | 2) + varint(len(body)) + body


class Program:
    """3,000 functions in 220 files that call each other, each from a few of its lines."""

    def __init__(self, rng):
        files = ["/usr/lib/python3/dist-packages/%s/%s_%s.py" % tuple(rng.choices(WORDS, k=3)) for _ in range(220)]
        self.rng, self.calls = rng, {}
        self.functions = [("%s_%s.%s" % tuple(rng.choices(WORDS, k=3)), file, rng.randrange(1, 1500)) for file in files for _ in range(14)]

    def skewed(self, count):
        return int(count * self.rng.random() ** 1.7)

    def callees(self, function):
        if function not in self.calls:
            self.calls[function] = [(self.rng.randrange(len(self.functions)), self.functions[function][2] + self.rng.randrange(1, 40))
                                    for _ in range(self.rng.randrange(1, 5))]
        return self.calls[function]

    def stack(self):
        at, frames = self.skewed(20), []
        for _ in range(max(4, min(120, int(self.rng.lognormvariate(3.3, 0.45))))):
            callees = self.callees(at)
            callee, line = callees[self.skewed(len(callees))]
            frames.append((at, line))
            at = callee
        return frames


def profile(program, samples):
    """@samples: {(process, stack): count}. Tables and ids in the order of their first use."""
    strings, functions, locations, out = {"": 0}, {}, {}, b""

    def string(s):
        return strings.setdefault(s, len(strings))
    for of in (("samples", "count"), ("cpu", "nanoseconds")):
        out += message(1, (1, string(of[0])), (2, string(of[1])))
    out += message(11, (1, string("cpu")), (2, string("nanoseconds"))) + varint(12 << 3) + varint(PERIOD_NS)
    for (process, stack), count in samples.items():
        for function, line in stack:
            if function not in functions:
                name, file, first = program.functions[function]
                functions[function] = len(functions) + 1
                out += message(5, (1, functions[function]), (2, string(name)), (4, string(file)), (5, first))
            if (function, line) not in locations:
                locations[function, line] = len(locations) + 1
                out += message(4, (1, locations[function, line]), message(4, (1, functions[function]), (2, line)))
        ids = b"".join(varint(locations[frame]) for frame in reversed(stack))
        labels = [message(3, (1, string(key)), (3, 1000 + process)) for key in ("pid", "tid")]
        labels += [message(3, (1, string(key)), (2, string(text))) for key, text in (("process", "python3"), ("thread", "MainThread"))]
        out += message(2, message(1, ids), message(2, varint(count) + varint(count * PERIOD_NS)), *labels)
    return out + b"".join(message(6, s.encode()) for s in strings), len(locations)


def samples_of(rng, program):
    pool = [(rng.randrange(20), tuple(program.stack())) for _ in range(4000)]
    drawn, counts = rng.choices(pool, [1 / (i + 1) ** 1.1 for i in range(len(pool))], k=57_000), {}
    for one in drawn:
        counts[one] = counts.get(one, 0) + 1
    return counts


def ids_in(data, field):
    return [dict(protobuf.fields(value))[1] for number, value in protobuf.fields(data) if number == field]


def test_a_minute_of_a_node(tmp_path):
    rng = random.Random(26)
    program = Program(rng)
    samples = samples_of(rng, program)
    data, location_cnt = profile(program, samples)
    assert len(samples) > 3000 and location_cnt > 5000
    (tmp_path / "x.pb").write_bytes(data)
    subprocess.run([PYEBPF, "convert", tmp_path / "x.pb", "-f", "pprof", "-o", tmp_path / "y.pb.gz"], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    written = (tmp_path / "y.pb.gz").read_bytes()
    assert len(written) <= NODE_MINUTE
    before, after = protobuf.Pprof(data), protobuf.Pprof(written)
    at = [after.types.index(of) for of in before.types]
    assert {stack: [values[i] for i in at] for stack, values in after.stacks.items()} == before.stacks
    for field in (3, 4, 5):  # of mappings, locations, functions: some readers take no other ids
        ids = ids_in(protobuf.gzip.decompress(written), field)
        assert ids == list(range(1, len(ids) + 1))
