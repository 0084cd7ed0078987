# SPDX-License-Identifier: Apache-2.0
"""Windows of a store, made as the agent makes them, with known stacks and values; many in no time, of any age."""
import collections
import gzip
import random
import re
import time
import zlib

# Names of services that break what puts them into a path, a query, a page or a table: a program's name is its own choice.
HOSTILE = ("../../etc/passwd", "a b", "a+b", "a\x1b[31m\nb", "\"><script>alert(1)</script>", "'); DROP TABLE profiles --",
           "{job=\"x\"} |= `y`", "söme \"name\" \\", "\\x27 OR 1", "=a=b,c", "%s%n%00", "${HOME}$1", "\u202egnp.exe", "n" * 1024)

TYPES = (("samples", "count"), ("wall", "nanoseconds"), ("cpu", "nanoseconds"), ("off_cpu", "nanoseconds"))
PERIOD_NS = 52631578


def varint(value):
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7f | 0x80])
        value >>= 7
    return out + bytes([value])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


class Profile:
    """samples: {stack: values}, a stack is a tuple of (name, file, line), outermost first."""

    def __init__(self, samples, start_ns, length_s, labels, tid=1):
        self.strings = {"": 0}
        self.samples, self.start_ns, self.length_s, self.labels = samples, start_ns, length_s, labels
        self.functions, self.locations = {}, {}
        self.tid = tid

    def text(self, s):
        return self.strings.setdefault(s, len(self.strings))

    def function(self, name, file, out):
        key = name, file
        if key not in self.functions:
            self.functions[key] = len(self.functions) + 1
            out.append(field(5, field(1, self.functions[key]) + field(2, self.text(name)) +
                             field(3, self.text("%s:%s" % (file, name))) + field(4, self.text(file)) + field(5, 1)))
        return self.functions[key]

    def location(self, frame, out):
        if frame not in self.locations:
            name, file, line = frame
            line = field(1, self.function(name, file, out)) + field(2, line)
            self.locations[frame] = len(self.locations) + 1
            out.append(field(4, field(1, self.locations[frame]) + field(2, 1) + field(4, line)))
        return self.locations[frame]

    def data(self):
        out = []
        for kind, unit in TYPES:
            out.append(field(1, field(1, self.text(kind)) + field(2, self.text(unit))))
        out.append(field(9, self.start_ns) + field(10, self.length_s * 10**9))
        out.append(field(11, field(1, self.text("cpu")) + field(2, self.text("nanoseconds"))) + field(12, PERIOD_NS))
        out.append(field(14, self.text("cpu")))
        out.append(field(3, field(1, 1) + field(5, self.text("/usr/bin/python3")) + field(7, 1) + field(8, 1) + field(9, 1)))
        for name, value in self.labels.items():
            out.append(field(13, self.text("label: %s=%s" % (name, value))))
        for stack, values in self.samples.items():
            ids = b"".join(varint(self.location(f, out)) for f in reversed(stack))
            sample = field(1, ids) + field(2, b"".join(map(varint, values)))
            sample += field(3, field(1, self.text("pid")) + field(3, 77)) + field(3, field(1, self.text("tid")) + field(3, self.tid))
            sample += field(3, field(1, self.text("thread")) + field(2, self.text("worker-%d" % self.tid)))
            out.append(field(2, sample))
        strings = b"".join(field(6, s) for s in self.strings)
        return b"".join(out) + strings


def stack_of(rng, service):
    depth = rng.randint(2, 12)
    names = ["<module>"] + ["%s.mod%d.Class.method_%d" % (service, rng.randint(0, 9), rng.randint(0, 30)) for _ in range(depth)]
    return tuple((name, "/srv/%s/mod%d.py" % (service, i % 10), 10 + i * 3) for i, name in enumerate(names))


class Made:
    """What was written: sums[service][stack] = values, of all windows; windows: their names."""

    def __init__(self):
        self.sums = collections.defaultdict(lambda: collections.defaultdict(lambda: [0] * len(TYPES)))
        self.windows = []

    def add(self, service, samples):
        for stack, values in samples.items():
            held = self.sums[service][stack]
            held[:] = [a + b for a, b in zip(held, values)]

    def total(self, service):
        """(samples, wall ns) of a service, over all its stacks."""
        rows = self.sums[service].values()
        return sum(r[0] for r in rows), sum(r[1] for r in rows)


def put(store, name, data):
    """Under its name when it is complete, as the store does it."""
    temporary = store / (".pyebpf-%s.tmp" % name)
    temporary.write_bytes(data)
    temporary.rename(store / name)


def write(store, made, service, start_ns, node="node-1", stacks=20, seed=0, length_s=60, **labels):
    """A window of a service."""
    rng = random.Random("%s %s %d %d" % (service, node, start_ns, seed))
    pool = [stack_of(random.Random("%s %d" % (service, i)), service) for i in range(60)]
    samples = {}
    for stack in rng.sample(pool, min(stacks, len(pool))):
        on, off = rng.randint(0, 50), rng.randint(0, 2) * 1000003
        samples[stack] = [on + (off > 0), on * PERIOD_NS + off, on * PERIOD_NS, off]
    samples = {k: v for k, v in samples.items() if any(v)}
    labels = dict({"service_name": service, "node": node}, **labels)
    data = gzip.compress(Profile(samples, start_ns, length_s, labels).data(), 1, mtime=0)
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(start_ns // 10**9))
    plain = re.sub("[^A-Za-z0-9._-]", "_", service)[:63]
    name = "%s-%ds-%s-%08x.pb.gz" % (stamp, length_s, plain, zlib.crc32(repr((service, sorted(labels.items()), seed)).encode()))
    put(store, name, data)
    made.add(service, samples)
    made.windows.append(name)
    return name


def now_ns():
    return time.time_ns() // 10**9 * 10**9


def hour(store, services=("shop", "cart"), minutes=55, node="node-1", **labels):
    """Windows of 60 s, one after the other, up to now."""
    store.mkdir(exist_ok=True)
    made, end = Made(), now_ns()
    for minute in range(minutes, 0, -1):
        for service in services:
            write(store, made, service, end - minute * 60 * 10**9, node, **labels)
    return made
