# SPDX-License-Identifier: Apache-2.0
"""Tools side by side: each round runs every tool once on each program, then the next round begins
with another tool. The time is the program's own, around its work; attaching and saving are apart."""
import os
import shutil
import subprocess
import tempfile
import time

import slices
from common import CPU_TARGET, CPU_TOOL, Failed, HERE, Target, Tracer, load, median, middle_half, packages, pin, quantile, say, \
    slowdown_text, summary_counts, table, version

COLUMNS = ["add", "fib", "json", "template", "parser", "asyncio", "django"]
WORKLOADS = os.path.join(HERE, "workloads.py")
ATTACH_SECONDS = 0.5
INLINE = ["--engine", "inline", "--on-full", "wait"]
# how pyebpf is called, and where it runs
TRACERS = {
    "pyebpf uprobe": (["--engine", "uprobe"], CPU_TOOL),
    "pyebpf usdt": (["--engine", "usdt"], CPU_TOOL),
    "pyebpf inline": (INLINE, CPU_TOOL),
    "pyebpf inline, one CPU": (INLINE, CPU_TARGET),
    "pyebpf inline --count": (["--engine", "inline", "--count"], CPU_TOOL),
    "pyebpf inline --count --time": (["--engine", "inline", "--count", "--time"], CPU_TOOL),
    "pyebpf inline --opcodes all": ([*INLINE, "--opcodes", "all"], CPU_TOOL),
}
# seconds of a slice, where a second has too few units of a program
LONGER = {"pyebpf uprobe": 8, "pyebpf usdt": 8}


def output(options, folder):
    """Events into a capture, sums into a text."""
    return os.path.join(folder, "out.txt" if "--count" in options or "--opcodes" in options else "out.pyebpf")


class Block:
    """One interpreter, its tools, its programs."""

    def __init__(self, argv, tools, columns, pyebpf, work):
        self.argv, self.tools, self.pyebpf, self.work = argv, tools, pyebpf, work
        self.version = version(argv)
        self.env = dict(os.environ, PYTHONHASHSEED="0", PYTHONDONTWRITEBYTECODE="1")
        self.skipped = []
        self.columns = list(columns)
        self.saved = set()
        if "viztracer" in tools or "django" in columns:
            folder, why = packages(argv)
            if folder:
                self.env["PYTHONPATH"] = folder
            else:
                self.skip("viztracer and django", why)
                self.tools = [t for t in tools if t != "viztracer"]
                self.columns = [c for c in columns if c != "django"]
        if "monitoring" in self.tools and tuple(map(int, self.version.split("."))) < (3, 12):
            self.tools.remove("monitoring")
            self.skip("sys.monitoring", "Python %s has none" % self.version)
        self.runs = []
        self.events = {}
        self.lost = {}

    def skip(self, what, why):
        self.skipped.append("%s: %s" % (what, why))
        say("skipped", what + ":", why)

    def command(self, tool, column, folder):
        target = [WORKLOADS, column, "--out", os.path.join(folder, "result")]
        out = os.path.join(folder, "out")
        hook = ["--hook", tool]
        return {
            "cProfile": self.argv + ["-m", "cProfile", "-o", out] + target,
            "setprofile": self.argv + target + hook,
            "monitoring": self.argv + target + hook,
            "profiling.tracing": self.argv + ["-m", "profiling.tracing", "-o", out] + target,
            "viztracer": self.argv + ["-m", "viztracer", "--quiet", "--tracer_entries", "4000000", "-o", out + ".json",
                                      "--"] + target,
        }[tool]

    def count(self, column):
        out = os.path.join(self.work, "count")
        subprocess.run(self.argv + [WORKLOADS, column, "--hook", "count", "--out", out], env=self.env, check=True,
                       stdout=subprocess.DEVNULL, preexec_fn=pin(CPU_TARGET))
        self.events[column] = load(out)["events"]

    def run_baseline(self, column, folder):
        """A process that is traced has stood still while the tracer started; caches forget it meanwhile, which is as
        dear as an engine."""
        target = Target(self.argv, column, os.path.join(folder, "result"), env=self.env, cwd=folder)
        try:
            time.sleep(ATTACH_SECONDS)
            target.go()
            target.wait()
        finally:
            target.end()

    def run_traced(self, tool, column, folder):
        options, cpu = TRACERS[tool]
        capture = output(options, folder)
        target = Target(self.argv, column, os.path.join(folder, "result"), env=self.env, cwd=folder)
        tracer = None
        try:
            tracer = Tracer(self.pyebpf, options + ["-p", str(target.pid), "-o", capture], cpu=cpu)
            tracer.wait_attached(target.pid)
            time.sleep(0.05)
            target.go()
            target.wait()
            written, lost = summary_counts(tracer.finish())
        finally:
            target.end()
            if tracer:
                tracer.end()
        return {"written": written, "lost": lost, "bytes": os.path.getsize(capture)} if capture.endswith(".pyebpf") else {}

    def run_tool(self, tool, column, folder):
        """A tool that writes at the end for long is ended there once its file's size is known."""
        process = subprocess.Popen(self.command(tool, column, folder), env=self.env, cwd=folder,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   preexec_fn=pin(CPU_TARGET))
        result = os.path.join(folder, "result")
        known = (tool, column) in self.saved
        start = time.monotonic()
        while process.poll() is None:
            if known and os.path.exists(result) or time.monotonic() - start > 180:
                process.kill()
            time.sleep(0.01)
        size = sum(os.path.getsize(os.path.join(folder, f)) for f in os.listdir(folder) if f.startswith("out"))
        if size and not known:
            self.saved.add((tool, column))
            return {"bytes": size}
        return {}

    def run(self, tool, column, number):
        folder = tempfile.mkdtemp(dir=self.work)
        run = {"tool": tool, "column": column, "round": number}
        try:
            if tool == "baseline":
                self.run_baseline(column, folder)
            elif tool.startswith("pyebpf"):
                run.update(self.run_traced(tool, column, folder))
            else:
                run.update(self.run_tool(tool, column, folder))
            result = load(os.path.join(folder, "result"))
            run.update(elapsed=result["elapsed"], cpu=result["cpu"])
            self.runs.append(run)
        except (Failed, OSError, ValueError) as e:
            self.skip("%s on %s" % (tool, column), str(e).strip())
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def measure(self, rounds):
        for column in self.columns:
            self.count(column)
        for number in range(rounds):
            for column in self.columns:
                for i in range(len(self.tools)):
                    self.run(self.tools[(i + number) % len(self.tools)], column, number)
            say("python %s: round %d of %d" % (self.version, number + 1, rounds))

    def start(self, tool, column):
        """What slices.py calls to let a tool begin."""
        def begin(target):
            options, cpu = TRACERS[tool]
            tracer = Tracer(self.pyebpf, options + ["-p", str(target.pid), "-o", output(options, self.work), "--force"], cpu=cpu)
            tracer.wait_attached(target.pid)

            def stop():
                tracer.interrupt()
                self.lost[tool, column] = self.lost.get((tool, column), 0) + (summary_counts(tracer.finish())[1] or 0)
            return stop
        return begin if tool in TRACERS else lambda target: target.hook(tool)

    def slices(self, repeats):
        """[{tool, column, slowdown, least, most, slices, ns of an event without it, and added, lost}] of slices of one run of each
        program."""
        found = []
        for column in self.columns:
            starts = {tool: self.start(tool, column) for tool in self.tools}
            pairs, events = slices.measure(self.argv, column, starts, repeats, self.work, LONGER, env=self.env,
                                           preexec_fn=pin(CPU_TARGET))
            for tool in self.tools:
                if pairs[tool]:
                    found.append(dict(middle_half([during / base for base, during in pairs[tool]]), tool=tool, column=column,
                                      base_ns=median([base / events for base, _ in pairs[tool]]),
                                      added_ns=median([(during - base) / events for base, during in pairs[tool]]),
                                      lost=self.lost.get((tool, column), 0)))
            say("python %s: slices of %s" % (self.version, column))
        return found

    def cell(self, tool, column):
        """Ratios inside a round; ns per event from the target's CPU time; None: no run."""
        mine = [r for r in self.runs if r["tool"] == tool and r["column"] == column]
        base = {r["round"]: r for r in self.runs if r["tool"] == "baseline" and r["column"] == column}
        mine = [r for r in mine if r["round"] in base]
        if not mine:
            return None
        events = self.events[column]
        elapsed = [r["elapsed"] / base[r["round"]]["elapsed"] for r in mine]
        cpu = [r["cpu"] / base[r["round"]]["cpu"] for r in mine]
        added = [(r["cpu"] - base[r["round"]]["cpu"]) * 1e9 / events for r in mine]
        cell = {"elapsed_ratio": median(elapsed), "elapsed_ratio_p10": quantile(elapsed, 0.1),
                "cpu_ratio": median(cpu), "cpu_ratio_p10": quantile(cpu, 0.1),
                "added_ns_per_event": median(added), "added_ns_per_event_p10": quantile(added, 0.1),
                "elapsed_ms": 1000 * median([r["elapsed"] for r in mine]), "rounds": len(mine)}
        size = [r["bytes"] for r in mine if r.get("bytes")]
        if size and tool not in ("cProfile", "profiling.tracing"):
            cell["bytes_per_event"] = median(size) / events
        if any("lost" in r for r in mine):
            cell["lost"] = sum(r["lost"] or 0 for r in mine)
            cell["events"] = median([r["written"] or 0 for r in mine])
        return cell

    def results(self):
        return {"python": self.version, "events": self.events, "skipped": self.skipped, "runs": self.runs,
                "cells": {t: {c: self.cell(t, c) for c in self.columns} for t in self.tools}}


def show_slices(python, found):
    columns = [c for c in COLUMNS if any(s["column"] == c for s in found)]
    by = {(s["tool"], s["column"]): s for s in found}

    def text(s):
        return "%s +%.1f" % (slowdown_text(s), s["added_ns"]) + ("; lost %d" % s["lost"] if s["lost"] else "") if s else "-"

    rows = [["baseline, ns per event"] + ["%.1f" % median([s["base_ns"] for s in found if s["column"] == c]) for c in columns]]
    rows += [[tool] + [text(by.get((tool, c))) for c in columns] for tool in dict.fromkeys(s["tool"] for s in found)]
    table("Python %s: slices of one run with a tool and without: slowdown (middle half), and ns added per event" % python,
          [""] + columns, rows)


def show(results):
    cells = results["cells"]
    columns = [c for c in COLUMNS if c in results["events"]]
    head = ["%s (%.2fM)" % (c, results["events"][c] / 1e6) for c in columns]

    def rows(text, tools=cells):
        return [[t] + [text(cells[t][c]) if cells[t].get(c) else "-" for c in columns] for t in tools]

    title = "Python %s" % results["python"]
    table("%s: elapsed time, times the baseline: median (p10); the baseline in ms; in the head: events" % title,
          [""] + head, rows(lambda c: "%.0f ms" % c["elapsed_ms"], ["baseline"]) +
          rows(lambda c: "%.2f (%.2f)" % (c["elapsed_ratio"], c["elapsed_ratio_p10"]),
               [t for t in cells if t != "baseline"]))
    table("%s: CPU time of the target, times the baseline, and ns added per event" % title, [""] + head,
          rows(lambda c: "%.2f +%.0f" % (c["cpu_ratio"], c["added_ns_per_event"]),
               [t for t in cells if t != "baseline"]))
    table("%s: file bytes per event; events lost" % title, [""] + head,
          rows(lambda c: ("%.1f" % c["bytes_per_event"] if "bytes_per_event" in c else "-") +
               ("; lost %d" % c["lost"] if "lost" in c else ""),
               [t for t in cells if any(c and "bytes_per_event" in c for c in cells[t].values())]))
