# SPDX-License-Identifier: Apache-2.0
"""Reads what goes to the table profiles of ClickHouse, for servers that stand in for it."""
import struct


class Rows:
    def __init__(self, data):
        self.data, self.at = data, 0

    def number(self, kind, size):
        value = struct.unpack_from("<" + kind, self.data, self.at)[0]
        self.at += size
        return value

    def count(self):
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7f) << shift
            shift += 7
            if byte < 0x80:
                return value

    def text(self):
        size = self.count()
        self.at += size
        return self.data[self.at - size:self.at].decode()

    def list(self, item):
        return [item() for _ in range(self.count())]

    def u64(self):
        return self.number("Q", 8)

    def i64(self):
        return self.number("q", 8)


def profiles(data):
    """[{column: value}] of a request's body."""
    rows, r = [], Rows(data)
    while r.at < len(data):
        row = {"ts": r.number("I", 4), "start_ns": r.i64(), "end_ns": r.i64(), "type": r.text(), "service": r.text(), "node": r.text()}
        row["labels"] = dict(zip(r.list(r.text), r.list(r.text)))
        row["profile"], row["period"] = r.u64(), r.i64()
        row["stacks"], row["values"] = r.list(r.u64), r.list(r.i64)
        rows.append(row)
    return rows
