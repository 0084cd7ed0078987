#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: soak_samples.py SAMPLES [PYTHON...] (called by scripts/soak --samples and test_soak.py): a program goes from one
call chain to the next all the time, and every legal one is known. So many samples at 10 kHz, of each interpreter of
scripts/pythons (or those named) in turn: none may be an impossible one, and at most 1 % unreadable. Prints a line for each,
and a last one for all."""
import json
import pathlib
import subprocess
import sys
import tempfile

import lib

PROGRAM = lib.PROGRAMS / "sampled" / "legal.py"
CHAINS = [["red0", "red1", "red2"], ["green0", "green1", "green2"], ["blue0", "gen_blue"]]
RATE = 10000
LEGAL = {tuple(c[:n]) for c in CHAINS for n in range(len(c) + 1)}


class Count:
    def __init__(self):
        self.samples = self.unreadable = 0
        self.impossible, self.deepest = {}, set()

    def take(self, stack):
        names = [f["name"] for f in stack if f["file"] == str(PROGRAM)]
        unreadable = any(f["name"].startswith("[unreadable") for f in stack)
        if not names and not unreadable:
            return  # before the program, and behind it
        self.samples += 1
        self.unreadable += unreadable
        if unreadable or names == ["<module>"]:
            return
        inner = tuple(names[2:])
        if names[:2] != ["<module>", "main"] or inner not in LEGAL:
            self.impossible[tuple(names)] = self.impossible.get(tuple(names), 0) + 1
        else:
            self.deepest.add(inner[-1:])

    def add(self, other):
        self.samples += other.samples
        self.unreadable += other.unreadable
        self.impossible.update(other.impossible)


def record(command, folder, count, seconds):
    capture = folder / "legal.pyebpf"
    done = lib.sh([lib.BINARY, "record", "-q", "--force", "--mode", "cpu", "-r", RATE, "-o", capture, "--", *command, PROGRAM,
                   seconds])
    assert done.returncode == 0, lib.text(done.stderr)
    with subprocess.Popen([str(lib.BINARY), "convert", "-q", str(capture), "-f", "ndjson", "-o", "-"], stdout=subprocess.PIPE) as convert:
        for line in convert.stdout:
            e = json.loads(line)
            if e["ev"] == "sample":
                count.take(e["stack"])
    assert convert.returncode == 0


def soak(total, names):
    every = Count()
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            one, wanted = Count(), -(-total // len(names))  # of each, however many another one gave
            while one.samples < wanted:
                before = one.samples
                record(lib.command(name), pathlib.Path(folder), one, min(5, max(1, (wanted - before) / RATE)))
                assert one.samples > before, "no samples of %s" % name
            assert {(c[-1],) for c in CHAINS} <= one.deepest, (name, one.deepest)
            print("%s: %d samples, %d impossible, %d unreadable" %
                  (name, one.samples, sum(one.impossible.values()), one.unreadable), flush=True)
            every.add(one)
    assert not every.impossible, every.impossible
    assert every.unreadable <= every.samples / 100
    print("soak: %d samples of %d interpreters at %d Hz, 0 impossible, %.3f %% unreadable" %
          (every.samples, len(names), RATE, 100 * every.unreadable / every.samples))


if __name__ == "__main__":
    soak(int(sys.argv[1]), sys.argv[2:] or lib.families())
