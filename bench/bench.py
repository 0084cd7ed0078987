#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Called by scripts/bench: runs the parts that were asked for, prints tables, writes JSON."""
import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time

import agent
import growth
import limits
import rows
import samplers
import stack_cost
from common import ALLOWED, CPU_TARGET, CPU_TOOL, Failed, choose, packages, pin, pythons, say, slowdown_text, table, version

PARTS = ["event", "rows", "side", "slices", "rate", "start", "file", "formats", "growth", "agent", "fleet", "node", "record"]
MAIN = ["pyenv-3.12", "pyenv-3.13", "3.13-trixie", "pyenv-3.14", "3.14", "pyenv-3.11", "3.11-debian"]
INLINE_TOOLS = [t for t in rows.TRACERS if t.startswith("pyebpf inline")]
SLICED_TOOLS = ["pyebpf inline", "pyebpf inline --count", "pyebpf inline --count --time"]
SIDE_TOOLS = [*SLICED_TOOLS[1::-1], "monitoring", "viztracer", "cProfile", "setprofile", "pyebpf uprobe"]


def part_event(args, found, report):
    versions = [("pyenv-3.12",), ("pyenv-3.13", "3.13-trixie"), ("pyenv-3.11", "3.11-debian")]
    for prefixes in versions:
        argv = choose(found, *prefixes)
        if not argv:
            say("skipped: no python", prefixes[0])
            continue
        report["event"].append(limits.probe_cost(args.build, argv, args.probe_rounds))
    table("An event against an empty BPF program at the same instruction: ns, and ratio (p10-p90)",
          ["python", "entry: empty", "adds", "ratio (target 1.45)", "exit: empty", "adds", "ratio (target 1.2)"],
          [[r["python"]] + sum([["%.0f" % r[f]["empty_ns"], "%.0f" % r[f]["added_ns"],
                                 "%.2f (%.2f-%.2f)" % (r[f]["ratio"], r[f]["ratio_p10"], r[f]["ratio_p90"])]
                                for f in ("entry", "exit")], []) for r in report["event"]])


def part_rows(args, found, report):
    pyebpf = args.pyebpf
    tools = ["baseline", "cProfile", "setprofile", "monitoring", "viztracer", *INLINE_TOOLS, "pyebpf uprobe"]
    blocks = [(args.python, tools, args.columns)]
    few = [c for c in args.columns if c in ("add", "json", "asyncio")]
    later, usdt = choose(found, "3.15"), choose(found, "3.9-bullseye")
    if later and few:
        blocks.append((later, ["baseline", "profiling.tracing", *INLINE_TOOLS, "pyebpf uprobe"], few))
    if usdt and few:
        blocks.append((usdt, ["baseline", "cProfile", "pyebpf usdt", "pyebpf uprobe"], few))
    for argv, names, columns in blocks:
        block = rows.Block(argv, list(names), columns, pyebpf, args.work)
        block.measure(args.rounds)
        report["rows"].append(block.results())
        rows.show(report["rows"][-1])


def sliced(args, argv, tools, columns, repeats):
    block = rows.Block(argv, list(tools), columns, args.pyebpf, args.work)
    r = {"python": block.version, "slices": block.slices(repeats)}
    rows.show_slices(r["python"], r["slices"])
    return r


def part_side(args, found, report):
    """The table of the README."""
    report["side"] = sliced(args, args.python, SIDE_TOOLS, args.columns, args.repeats)


def part_slices(args, found, report):
    """The inline engine on the given interpreter, the newest and the one without a GIL."""
    report["slices"] = []
    for argv in [args.python] + [a for a in (choose(found, "3.15"), choose(found, "3.13t")) if a and a != args.python]:
        columns = [c for c in args.columns if c != "django" or argv is args.python]
        report["slices"].append(sliced(args, argv, SLICED_TOOLS, columns, 3 * args.repeats))


def part_rate(args, found, report):
    r = report["rate"] = limits.rate(args.pyebpf, args.python, args.work, args.seconds)
    table("1M events per second, target on one CPU, pyebpf on another, rings of 64 MB", ["", "", "target"], [
        ["held for", "%.1f s" % r["seconds"], "60 s"],
        ["events per second", "%.0f" % r["events_per_s"], "1000000"],
        ["written", r["written"], ""],
        ["lost", r["lost"], "0"],
        ["CPU of the program", "%.0f %%" % r["target_cpu_pct"], ""],
        ["CPU of pyebpf", "%.0f ns per event" % r["pyebpf_cpu_ns_per_event"], ""],
        ["capture", "%.2f bytes per event" % r["bytes_per_event"], "4"]])


def part_start(args, found, report):
    n = args.repeats
    r = report["start"] = {"attach": limits.attach(args.pyebpf, args.python, args.work, n),
                           "launch": limits.launch(args.pyebpf, args.python, args.work, n),
                           "interrupt": limits.interrupt(args.pyebpf, args.python, args.work, max(2, n // 2))}
    table("Start and end, seconds", ["", "median", "p10", "max", "target"], [
        [name] + ["%.2f" % r[key][k] for k in ("median", "p10", "max")] + [target] for name, key, target in (
            ("pyebpf trace -p to the first event (%.2f of CPU time in all)" % r["attach"]["cpu"], "attach", "1"),
            ("pyebpf trace -- CMD to the first event (bare: %.2f)" % r["launch"]["bare_python"], "launch", "1"),
            ("Ctrl-C to the prompt, %.1fM events" % ((r["interrupt"]["events"] or 0) / 1e6), "interrupt", "3"))])


def part_file(args, found, report):
    folder, _ = packages(args.python)
    program, size = ("django", 1600) if folder else ("json", 92)
    env = dict(os.environ, PYTHONPATH=folder or "")
    capture, events = limits.capture_real(args.pyebpf, args.python, env, args.work, program, size)
    r = report["file"] = {"program": program,
                          "ring": limits.ring(args.build, args.work, 3),
                          "convert": limits.convert(args.pyebpf, args.work, capture, events),
                          "firefox": limits.firefox(args.build, 3)}
    table("Ring to capture file (made-up batches), best of 3",
          ["", "M events/s of CPU time", "bytes per event", "target"],
          [[k, "%.1f" % (v["events_per_s"] / 1e6), "%.2f" % v["bytes_per_event"], "20" if "inline" in k else "8; 4 bytes"]
           for k, v in r["ring"].items()])
    c, f = r["convert"], r["firefox"]
    table("Capture to Firefox file", ["", "M events", "M events/s of CPU time", "elapsed", "peak MB", "bytes per event",
                                      "capture", "target"],
          [["pyebpf convert, %s" % program, "%.1f" % (c["events"] / 1e6), "%.1f" % (c["events_per_s_cpu"] / 1e6),
            "%.1f" % (c["events_per_s_elapsed"] / 1e6), "%.0f" % c["peak_rss_mb"], "%.2f" % c["bytes_per_event"],
            "%.2f" % c["capture_bytes_per_event"], "3; 500 MB per 10M; capture 4"],
           ["the exporter alone, made-up", "10.0", "%.1f" % (f["events_per_s"] / 1e6), "", "%.0f" % f["peak_rss_mb"],
            "%.2f" % f["gz_bytes_per_event"], "", "3; 500 MB"]])


def part_formats(args, found, report):
    r = report["formats"] = limits.formats(args.pyebpf, args.build, args.work, 2)
    table("10M made-up events to each format, best of 2: few distinct stacks; more than are kept apart",
          ["", "CPU s", "elapsed s", "peak MB", "file MB", "many: CPU s", "elapsed s", "peak MB", "file MB",
           "target"],
          [[name] + sum([["%.1f" % m["cpu_s"], "%.1f" % m["elapsed_s"], "%.0f" % m["peak_rss_mb"],
                          "%.1f" % (m["bytes_per_event"] * m["events"] / 1e6)]
                         for m in (measured["few"], measured["many"])], []) + ["10 s, 500 MB"]
           for name, measured in r.items()])
    r = report["analyses"] = limits.analyses(args.pyebpf, args.build, args.work, 2)
    table("Analyses of 10M made-up events, best of 2: few distinct stacks; more than are kept apart",
          ["", "CPU s", "elapsed s", "peak MB", "many: CPU s", "elapsed s", "peak MB", "target"],
          [[name] + sum([["%.1f" % m["cpu_s"], "%.1f" % m["elapsed_s"], "%.0f" % m["peak_rss_mb"]]
                         for m in (each["few"], each["many"])], [])
           + ["10 s, 200 MB" if name.startswith("merge") else "3 s"] for name, each in r.items()])
    folder, _ = packages(args.python)
    r = report["beside"] = limits.beside(args.pyebpf, args.build, args.work, args.python,
                                         dict(os.environ, PYTHONPATH=folder or ""), 2)
    table("Beside the tools whose formats they are, best of 2", ["", "theirs: CPU s", "peak MB", "pyebpf: CPU s", "peak MB"],
          [[what] + sum([["%.2f" % m["cpu_s"], "%.0f" % m["peak_rss_mb"]] for m in pair], []) for what, *pair in r])


def per_frame(all_of_them, m):
    """Bytes for each open frame beyond those of the same threads with few."""
    few = [x for x in all_of_them if (x["processes"], x["threads"]) == (m["processes"], m["threads"])][0]
    frames = (m["depth"] - few["depth"]) * m["threads"] * m["processes"]
    return "%.0f" % ((m["grown_bytes"] - few["grown_bytes"]) / frames) if frames else ""


def part_growth(args, found, report):
    r = report["growth"] = []
    capture = os.path.join(args.work, "growth.pyebpf")
    calls = 200000
    os.sched_setaffinity(0, ALLOWED)  # the shapes are about both CPUs
    for shape in growth.SHAPES:
        say("growth: %d processes, %d threads, depth %d" % shape)
        r.append(growth.both(args.pyebpf, args.python, shape, calls, capture))
    pin(CPU_TOOL)()
    table("%d calls in all, on all CPUs" % calls,
          ["processes", "threads", "depth", "ns per call", "lost", "pyebpf MB", "grown kB", "per thread", "per frame", "pyebpf CPU ms",
           "capture bytes per event", "attach s"],
          [[m["processes"], m["threads"], m["depth"], "%.0f" % m["call_ns"], m["lost"], "%.1f" % (m["memory_bytes"] / 1e6),
            "%.0f" % (m["grown_bytes"] / 1e3), "%.0f" % (m["grown_bytes"] / m["processes"] / m["threads"]), per_frame(r, m),
            "%.0f" % (m["pyebpf_cpu_s"] * 1e3), "%.2f" % (m["capture_bytes"] / m["events"]), "%.1f" % m["attach_s"]] for m in r])


def part_agent(args, found, report):
    os.sched_setaffinity(0, ALLOWED)
    r, theirs = report["agent"], report["otel"] = agent.run(args.pyebpf, args.python)
    pin(CPU_TOOL)()
    table("The agent beside 200 Python processes, 20 of them busy; windows of 60 s",
          ["Hz", "processes", "CPU %", "of it in the kernel %", "CPU ms a window", "RSS MB", "its own MB", "kB a minute", "samples", "left out",
           "lost", "start: CPU s"],
          [[m["rate"], m["targets"], "%.2f" % (m["cpu_pct"] + m["bpf_pct"]), "%.2f" % m["bpf_pct"], "%.1f" % m["window_cpu_ms"],
            "%.1f" % m["rss_mb"], "%.1f" % m["own_mb"], "%.0f" % (m["bytes_per_minute"] / 1e3), m["samples"], m["samples_skipped"],
            m["lost"], "%.2f" % m["start_cpu_s"]] for m in r])
    table("Beside the same processes: the OpenTelemetry eBPF profiler, which looks at the whole machine",
          ["Hz", "CPU %", "of it in the kernel %", "RSS MB", "its own MB", "start: CPU s"],
          [[m["rate"], m["why"], "", "", "", ""] if "why" in m else
           [m["rate"], "%.2f" % (m["cpu_pct"] + m["bpf_pct"]), "%.2f" % m["bpf_pct"], "%.1f" % m["rss_mb"], "%.1f" % m["own_mb"],
            "%.2f" % m["start_cpu_s"]] for m in theirs])


def part_fleet(args, found, report):
    import fleet  # asks for what tests have
    os.sched_setaffinity(0, ALLOWED)
    r = report["fleet"] = fleet.run(args.pyebpf, args.build, args.agents)
    pin(CPU_TOOL)()
    for how, said in (("paced", ""), ("gathered", "; the rows of many pushes become one part")):
        table("%d simulated agents, windows of 60 s, three shards of ClickHouse on this machine%s" % (r[how]["agents"], said),
              ["window", "pushes", "from when it was due, ms: median", "99 %", "longest", "from its begin: 99 %", "began late: 99 %", "bytes", "sent again",
               "CPU ms of the agent: before", "to send"],
              [[w["window"], w["pushes"], *("%.0f" % w[k + "_ms"] for k in ("due_p50", "due_p99", "due_max", "sent_p99", "late_p99")), "%.0f" % w["bytes"],
                w["retries"], "%.2f" % w["prepare_cpu_ms"], "%.2f" % w["cpu_ms"]] for w in r[how]["windows"]])
    exact, drain, query = (r[k] for k in ("exact", "drain", "query"))
    both = [("", r["paced"]), (", gathered", r["gathered"])]
    table("Fleet", ["", "measured", "target"], [
        *(["CPU of the servers for a push" + how, "%.1f ms" % (p["server_cpu_s"] * 1e3 / sum(w["pushes"] for w in p["windows"])), ""] for how, p in both),
        *(["99 % of the pushes" + how, "%.0f ms" % max(w["due_p99_ms"] for w in p["windows"]), "1000 ms"] for how, p in both),
        ["%d agents, %d stacks in all: sums that are wrong" % (exact["agents"], exact["stacks"]), exact["wrong"], "0"],
        ["%d windows, %.1f MB of a spool drained" % (drain["windows"], drain["bytes"] / 1e6), "%.2f s" % drain["seconds"], "3 s"],
        ["one service, an hour of %d nodes, %.0f M values" % (query["nodes"], query["values"] / 1e6),
         "%.2f s (first %.2f s; %.1f s of CPU)" % (query["seconds"], query["first_s"], query["server_cpu_s"]), "2 s"]])


def part_node(args, found, report):
    import full_node  # asks for what tests have
    os.sched_setaffinity(0, ALLOWED)
    r = report["node"] = full_node.run(args.node_seconds, args.image)
    pin(CPU_TOOL)()
    cost, churn, memory = r["cost"], r["churn"], r["cost"]["memory"]
    table("The DaemonSet's agent on a Kubernetes node with %d pods, %d of them busy, for %.0f s" % (cost["pods"], full_node.BUSY, cost["seconds"]),
          ["", "measured", "target"], [
              ["CPU", "%.2f %% of a CPU, %.2f %% of that in the kernel" % (cost["cpu_pct"] + cost["bpf_pct"], cost["bpf_pct"]), "0.5 %"],
              ["memory of its %d processes" % memory["processes"], "%.1f MB (its own %.1f)" % (memory["pss"] / 1e6, memory["own"] / 1e6), "64 MB"],
              ["as the kubelet counts it", "%.1f MB" % (memory.get("cgroup", 0) / 1e6), "64 MB"],
              ["start, up to the first window", "%.2f s of CPU" % cost["start_cpu_s"], ""],
              ["the list of the node's pods", "%.0f kB" % (r["received_list"]["in"] / 1e3), ""],
              ["the API server meanwhile", "%.0f bytes" % (cost["bytes"][1]["in"] - cost["bytes"][0]["in"]), ""],
              ["a pod that goes and one that comes", "%.1f kB" % (churn["bytes_in"] / churn["pods"] / 1e3), ""],
              *([what, n, ""] for what, n in r["requests"].items())])


def show_samplers(block):
    table("Samplers, %s on %s; slowdown without any: %.2f (%.2f-%.2f)" % (
        block["workload"], block["python"], block["base_noise"][1], block["base_noise"][0], block["base_noise"][2]),
          ["tool", "Hz", "its CPU", "slowdown (least-most)", "in CPU time", "own CPU", "got of asked", "samples", "wrong", "unread"],
          [[r["tool"], r["rate"], r["cpu"], "%.2f (%.2f-%.2f)" % (r["slowdown"], r["slowdowns"][0], r["slowdowns"][-1]),
            "%.3f" % r["cpu_slowdown"], "%.1f %%" % (100 * r["own_cpu"]), "%.0f %%" % (100 * r["got_of_asked"]), r["got"], "%.2f %%" % r["wrong_pct"],
            "%.2f %%" % r["unread_pct"]]
           for r in block["rows"]])


def part_record(args, found, report):
    r = report["record"] = {"blocks": []}
    bin_folder, later = samplers.peers(), choose(found, "3.15")
    ours, clock = samplers.Pyebpf(args.pyebpf, None), samplers.Clock()
    here = [ours, clock]
    if bin_folder:
        spy, austin = (os.path.join(bin_folder, name) for name in ("py-spy", "austin"))
        here += [samplers.PySpy(spy, None), samplers.PySpyNonblocking(spy, None), samplers.Austin(austin, None)]
    blocks = [(args.python, here, "calls", [100, 1000, 10000], [CPU_TARGET, CPU_TOOL]),
              (args.python, here, "nbody", [100, 1000], [CPU_TOOL])]
    if later:
        there = [ours, clock] + [t(None, later) for t in (samplers.Tachyon, samplers.TachyonBlocking)]
        blocks.append((later, there, "calls", [100, 1000, 10000], [CPU_TARGET, CPU_TOOL]))
    for argv, tools, workload, rates, cpus in blocks:
        block = samplers.measure(argv, tools, workload, rates, cpus, args.rounds, args.sample_seconds, args.work)
        block["python"] = version(argv)
        r["blocks"].append(block)
        show_samplers(block)
    r["slices"] = samplers.sliced(args.python, [ours, clock] + here[2:3], "calls", [100, 1000, 10000], 3 * args.repeats, args.work)
    table("Slices of one run of calls, with a sampler on the other CPU and without",
          ["tool", "Hz", "slowdown (middle half)", "slices"],
          [[s["tool"], s["rate"], slowdown_text(s), s["slices"]] for s in r["slices"]])
    os.sched_setaffinity(0, ALLOWED)
    r["start"] = samplers.starts(args.pyebpf, args.python, args.work, args.repeats)
    r["attach"] = samplers.attach_each(args.pyebpf, args.python, args.work, 200)
    r["own"] = samplers.own(args.pyebpf, args.python, args.work, 200, 20, args.seconds)
    looks = {"pyebpf dump": [args.pyebpf, "dump"]}
    if bin_folder:
        looks["py-spy dump"] = [spy, "dump", "-p"]
    r["dumps"] = samplers.dumps(looks, args.python, 3 * args.repeats)
    r["top_cpu_pct"] = samplers.top_cpu_pct(args.pyebpf, args.python, args.seconds)
    targets = {30: "1.5 µs", 200: "5 µs"}
    families = {version(argv): argv for argv in (choose(found, "pyenv-3.%d." % n, "3.%d-" % n) for n in range(8, 16))
                if argv}
    r["stack_ns"] = stack_cost.measure(args.pyebpf, families, list(targets), args.work)
    pin(CPU_TOOL)()
    table("A sample in the kernel (bpf_stats_enabled)", ["frames", *r["stack_ns"], "target"],
          [[n, *("%.2f µs" % (by[n] / 1e3) for by in r["stack_ns"].values()), targets[n]] for n in targets])
    table("pyebpf record", ["", "measured", "target"], [
        ["start to a flame graph of 0.5 s", "%.2f s" % r["start"]["flame_graph_s"], "2 s"],
        ["start to the first sample", "%.2f s" % r["start"]["to_first_sample_s"], ""],
        ["the same, %d processes by -p" % r["attach"]["processes"], "%.2f s" % r["attach"]["all_s"], "3 s"],
        ["a process more", "%.1f ms" % r["attach"]["each_ms"], "100 ms"],
        ["own CPU, -a at 99 Hz, %d processes, %d busy" % (r["own"]["processes"], r["own"]["busy"]),
         "%.2f %% of a CPU" % r["own"]["cpu_pct"], "0.5 %"],
        ["own memory", "%.0f MB" % r["own"]["rss_mb"], "80 MB"],
        ["own CPU of top, two processes at 99 Hz", "%.2f %% of a CPU" % r["top_cpu_pct"], "1 %"],
        *([name, "%.0f ms (%.0f ms of CPU time)" % (elapsed, cpu), "100 ms" if name.startswith("pyebpf") else ""]
          for name, (cpu, elapsed) in r["dumps"].items())])


def parse():
    parser = argparse.ArgumentParser(prog="scripts/bench", add_help=False)
    parser.add_argument("parts", nargs="*")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--columns", type=lambda s: s.split(","), default=rows.COLUMNS)
    parser.add_argument("--python", type=lambda s: s.split(), default=None)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--sample-seconds", type=float, default=1)
    parser.add_argument("--probe-rounds", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--agents", type=int, default=10000)
    parser.add_argument("--node-seconds", type=float, default=120)
    parser.add_argument("--image", default=None)
    parser.add_argument("--json", required=True)
    parser.add_argument("--build", required=True)
    args = parser.parse_args()
    args.parts = args.parts or PARTS
    unknown = set(args.parts) - set(PARTS) | set(args.columns) - set(rows.COLUMNS)
    if unknown:
        parser.error("unknown: " + " ".join(sorted(unknown)))
    args.pyebpf = os.path.join(args.build, "pyebpf")
    return args


def inline_engine(pyebpf):
    """What doctor says of it: what a time stamp takes differs by machine as much as all else of an event."""
    done = subprocess.run([pyebpf, "doctor", "--json"], stdout=subprocess.PIPE)
    return next(c["text"] for c in json.loads(done.stdout)["checks"] if c["name"] == "inline_engine")


def main():
    args = parse()
    pin(CPU_TOOL)()
    found = pythons()
    args.python = args.python or choose(found, *MAIN) or ["/usr/bin/python3"]
    args.work = tempfile.mkdtemp(prefix="pyebpf-bench-")
    report = {"python": version(args.python), "kernel": platform.release(), "machine": platform.machine(),
              "cpus": os.cpu_count(), "rounds": args.rounds, "load_before": os.getloadavg(), "event": [], "rows": []}
    failed = False
    start = time.monotonic()
    try:
        for part in PARTS:
            if part not in args.parts:
                continue
            try:
                globals()["part_" + part](args, found, report)
            except Failed as e:
                failed = True
                say("scripts/bench: %s: %s" % (part, e))
    finally:
        shutil.rmtree(args.work, ignore_errors=True)
    report.update(load_after=os.getloadavg(), seconds=time.monotonic() - start, doctor=inline_engine(args.pyebpf))
    with open(args.json, "w") as f:
        json.dump(report, f, indent=1)
        f.write("\n")
    print("\n%s\nload %.1f before, %.1f after; %.0f s; all figures in %s" % (
        report["doctor"], report["load_before"][0], report["load_after"][0], report["seconds"], args.json))
    return failed


if __name__ == "__main__":
    sys.exit(main())
