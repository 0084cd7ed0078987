# SPDX-License-Identifier: Apache-2.0
"""Figures of pyebpf alone: a sustained rate, start and end, sizes, conversion."""
import json
import os
import re
import resource
import shutil
import subprocess
import time

from common import CACHE, CPU_TARGET, CPU_TOOL, Failed, HERE, Target, Tracer, load, median, pin, quantile, say, \
    summary_counts, version

WORKLOADS = os.path.join(HERE, "workloads.py")


def spread(values):
    return {"median": median(values), "p10": quantile(values, 0.1), "max": max(values), "runs": len(values)}


def wait_with_usage(process):
    """Like wait(), with the CPU time and the peak of memory of this one process."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
    return usage


def cpu_seconds(pid):
    with open("/proc/%d/schedstat" % pid) as f:
        return int(f.read().split()[0]) / 1e9


def rate(pyebpf, argv, work, seconds, events_per_s=1000000):
    """Losses at a rate held for some time. pyebpf's CPU time is without the attach, with the summary."""
    capture = os.path.join(work, "rate.pyebpf")
    out = os.path.join(work, "rate.result")
    target = Target(argv, "pace", out, size="%g:%g" % (seconds, events_per_s / 2))
    tracer = None
    try:
        tracer = Tracer(pyebpf, ["-p", str(target.pid), "-o", capture, "--ring", "64M"])
        tracer.wait_attached(target.pid)
        attach_cpu = cpu_seconds(tracer.process.pid)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        target.go()
        said = tracer.finish(timeout=seconds * 3 + 120)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        target.wait()
    finally:
        target.end()
        if tracer:
            tracer.end()
    written, lost = summary_counts(said)
    done = load(out)
    events = 2 * done["calls"]
    reader_cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime - attach_cpu
    rings = [int(m) for m in re.findall(r"ring (\d+)%", said)]
    return {"python": version(argv), "seconds": done["elapsed"], "events_of_the_program": events,
            "events_per_s": events / done["elapsed"], "asked_per_s": events_per_s, "written": written, "lost": lost,
            "fullest_ring_seen_pct": max(rings) if rings else None,
            "target_cpu_pct": 100 * done["cpu"] / done["elapsed"],
            "pyebpf_cpu_ns_per_event": reader_cpu * 1e9 / max(written or 1, 1),
            "bytes_per_event": os.path.getsize(capture) / max(written or 1, 1)}


def capture_real(pyebpf, argv, env, work, workload, size):
    """A capture of a program for convert(); its path."""
    capture = os.path.join(work, "real.pyebpf")
    target = Target(argv, workload, os.path.join(work, "real.result"), size=size, env=env)
    tracer = None
    try:
        tracer = Tracer(pyebpf, ["-p", str(target.pid), "-o", capture, "--force"])
        tracer.wait_attached(target.pid)
        target.go()
        written, lost = summary_counts(tracer.finish())
    finally:
        target.end()
        if tracer:
            tracer.end()
    say("captured %s: %d events, %d lost" % (workload, written, lost))
    return capture, written


def convert(pyebpf, work, capture, events, extension=".json.gz"):
    """Capture to a file, Firefox's if nothing else is said: speed and memory."""
    out = os.path.join(work, "convert" + extension)
    start = time.perf_counter()
    process = subprocess.Popen([pyebpf, "convert", capture, "-o", out, "--force"], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, preexec_fn=pin(CPU_TOOL))
    usage = wait_with_usage(process)
    elapsed = time.perf_counter() - start
    if process.returncode:
        raise Failed("convert ended with %d" % process.returncode)
    written = [os.path.join(work, f) for f in os.listdir(work) if f.startswith("convert")]
    size = sum(map(os.path.getsize, written))
    for path in written:
        os.unlink(path)
    cpu = usage.ru_utime + usage.ru_stime
    return {"events": events, "cpu_s": cpu, "elapsed_s": elapsed, "events_per_s_cpu": events / cpu,
            "events_per_s_elapsed": events / elapsed,
            "peak_rss_mb": usage.ru_maxrss / 1024, "bytes_per_event": size / events,
            "capture_bytes_per_event": os.path.getsize(capture) / events}


def formats(pyebpf, build, work, repeats, events=10000000):
    """10M made-up events to each format: with few distinct stacks, and with more than are kept apart."""
    extensions = {"firefox": ".json.gz", "pprof": ".pb.gz", "speedscope": ".speedscope.json.gz",
                  "html": ".html", "chrometrace": ".trace.json.gz", "collapsed": ".folded", "svg": ".svg", "pstats": ".pstats",
                  "text": ".txt", "source": ".source.html", "ndjson": ".ndjson"}
    result = {}
    for stacks, depth in (("few", "4"), ("many", "30")):
        capture = os.path.join(work, stacks + ".pyebpf")
        subprocess.run([os.path.join(build, "bench", "made_up_capture"), capture, str(events), "70", depth],
                       stdout=subprocess.DEVNULL, check=True)
        for name, extension in extensions.items():
            runs = [convert(pyebpf, work, capture, events, extension) for _ in range(repeats)]
            result.setdefault(name, {})[stacks] = min(runs, key=lambda r: r["cpu_s"])
        os.unlink(capture)
    return result


def measured(argv, repeats, env=None):
    """CPU time, elapsed time and memory of a command, the best of some runs."""
    best = None
    for _ in range(repeats):
        start = time.perf_counter()
        process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=pin(CPU_TOOL),
                                   env=env)
        usage = wait_with_usage(process)
        if process.returncode:
            raise Failed("%s ended with %d" % (argv[1], process.returncode))
        run = {"cpu_s": usage.ru_utime + usage.ru_stime, "elapsed_s": time.perf_counter() - start,
               "peak_rss_mb": usage.ru_maxrss / 1024}
        best = run if not best or run["cpu_s"] < best["cpu_s"] else best
    return best


def analyses(pyebpf, build, work, repeats, events=10000000, captures=1000):
    """stats and diff of 10M made-up events, with few and with many distinct stacks; merge of many small captures."""
    maker, result = os.path.join(build, "bench", "made_up_capture"), {}
    for stacks, depth in (("few", "4"), ("many", "30")):
        capture = os.path.join(work, stacks + ".pyebpf")
        subprocess.run([maker, capture, str(events), "70", depth], stdout=subprocess.DEVNULL, check=True)
        for name, argv in (("stats", ["stats", capture]), ("stats --by module", ["stats", capture, "--by", "module"]),
                           ("stats --function", ["stats", capture, "--function", "func_30"]),
                           ("diff, twice as much to read", ["diff", capture, capture])):
            result.setdefault(name, {})[stacks] = measured([pyebpf, *argv], repeats)
        os.unlink(capture)
    small = os.path.join(work, "small")
    out = os.path.join(work, "merged.pb.gz")
    for stacks, depth in (("few", "4"), ("many", "30")):
        os.mkdir(small)
        # about 200 kB each, each of other calls
        paths = [os.path.join(small, "%d.pyebpf" % seed) for seed in range(1, captures + 1)]
        for seed, path in enumerate(paths, 1):
            subprocess.run([maker, path, "95000", "70", depth, str(seed)], stdout=subprocess.DEVNULL, check=True)
        run = measured([pyebpf, "merge", *paths, "-o", out, "--force", "-q"], 1)
        result.setdefault("merge of %d captures" % captures, {})[stacks] = run
        shutil.rmtree(small)
    os.unlink(out)
    return result


def beside(pyebpf, build, work, python, env, repeats, profiles=4, events=400000):
    """The same work done by the tools whose formats they are: [what, theirs, ours]."""
    maker, pprof = os.path.join(build, "bench", "made_up_capture"), shutil.which("pprof") or os.path.join(CACHE, "bin", "pprof")
    made = [os.path.join(work, "beside-%d.pyebpf" % seed) for seed in range(1, profiles + 1)]
    for seed, path in enumerate(made, 1):
        subprocess.run([maker, path, str(events), "70", "12", str(seed)], stdout=subprocess.DEVNULL, check=True)
        for extension in (".pb.gz", ".trace.json"):
            subprocess.run([pyebpf, "convert", path, "-o", path + extension, "-q"], check=True)
    both = os.path.join(work, "beside-both.pyebpf")
    subprocess.run([maker, both, str(2 * events), "70", "12"], stdout=subprocess.DEVNULL, check=True)
    out, sums = os.path.join(work, "beside-out.json"), [path + ".pb.gz" for path in made]
    rows = []
    if os.path.exists(pprof):
        rows.append(["%d pprof profiles to one: pprof -proto" % profiles,
                     measured([pprof, "-proto", "-symbolize=none", "-output", out, *sums], repeats),
                     measured([pyebpf, "merge", *sums, "-o", out + ".pb.gz", "--force", "-q"], repeats)])
    if env.get("PYTHONPATH"):
        combine = ["-m", "viztracer", "--combine", made[0] + ".trace.json", made[1] + ".trace.json", "-o", out]
        rows.append(["%.0fM events to one timeline: viztracer --combine of two" % (2 * events / 1e6),
                     measured([*python, *combine], repeats, env),
                     measured([pyebpf, "convert", both, "-o", out + ".trace.json", "--force", "-q"], repeats)])
    return rows


def first_event_ns(pyebpf, capture):
    """Time stamp of the first call or return in a capture; frames that were open are none."""
    process = subprocess.Popen([pyebpf, "convert", capture, "-f", "ndjson", "-o", "-"], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL)
    try:
        for line in process.stdout:
            event = json.loads(line)
            if event["ev"] not in ("open", "gap", "meta"):
                return event["ts_ns"]
    finally:
        process.stdout.close()
        process.wait()
    raise Failed("no event in the capture")


def attach(pyebpf, argv, work, repeats):
    """From the start of `pyebpf trace -p` to the first event of a program that calls all the time."""
    times, cpu = [], []
    capture = os.path.join(work, "attach.pyebpf")
    for _ in range(repeats):
        target = Target(argv, "pace", os.path.join(work, "attach.result"), size="30:0")
        target.go()
        try:
            time.sleep(0.1)
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            tracer = Tracer(pyebpf, ["-q", "-p", str(target.pid), "-o", capture, "--force", "--max-events", "1000"],
                            verbose=False)
            tracer.finish()
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            times.append((first_event_ns(pyebpf, capture) - tracer.start_ns) / 1e9)
            cpu.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        finally:
            target.end()
    return dict(spread(times), cpu=median(cpu))


def launch(pyebpf, argv, work, repeats):
    """From the start of `pyebpf trace -- CMD` to its first event, and CMD's own start-up alone."""
    times, bare = [], []
    capture = os.path.join(work, "launch.pyebpf")
    code = "import time; print(time.monotonic_ns())"
    for _ in range(repeats):
        start = time.monotonic_ns()
        out = subprocess.run(argv + ["-S", "-c", code], stdout=subprocess.PIPE, preexec_fn=pin(CPU_TARGET)).stdout
        bare.append((int(out) - start) / 1e9)
        start = time.monotonic_ns()
        subprocess.run([pyebpf, "trace", "-q", "-o", capture, "--force", "--as-root", "--"] + argv + ["-c", code],
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=pin(CPU_TOOL), check=True)
        times.append((first_event_ns(pyebpf, capture) - start) / 1e9)
    return dict(spread(times), bare_python=median(bare))


def interrupt(pyebpf, argv, work, repeats, calls=500000):
    """From Ctrl-C to the end of `pyebpf trace` with its default output, 1M events captured."""
    times = []
    for _ in range(repeats):
        out = os.path.join(work, "interrupt.result")
        profile = os.path.join(work, "interrupt.json.gz")
        target = Target(argv, "add", out, size=calls)
        tracer = None
        try:
            tracer = Tracer(pyebpf, ["-p", str(target.pid), "-o", profile, "--force"])
            tracer.wait_attached(target.pid)
            target.go(stay=True)
            while not os.path.exists(out):
                time.sleep(0.001)
            start = time.monotonic()
            tracer.interrupt()
            written, _ = summary_counts(tracer.finish())
            times.append(time.monotonic() - start)
        finally:
            target.end()
            if tracer:
                tracer.end()
            if os.path.exists(out):
                os.unlink(out)
    return dict(spread(times), events=written)


def bench_program(build, name, arguments):
    out = subprocess.run([os.path.join(build, "bench", name)] + arguments, stdout=subprocess.PIPE, check=True,
                         universal_newlines=True, preexec_fn=pin(CPU_TOOL)).stdout
    return json.loads(out)


def ring(build, work, repeats):
    """bench/ring_bench.c and bench/inline_bench.c by turns; the best of some runs, since noise only takes away."""
    result = {}
    for threads in (1, 4):
        for name, path in (("null", "/dev/null"), ("file", os.path.join(work, "ring.pyebpf"))):
            runs = {"": [], ", inline": []}
            for _ in range(repeats):
                for how, program in (("", "ring_bench"), (", inline", "inline_bench")):
                    runs[how].append(bench_program(build, program, ["-j", "-n", "5000000", "-t", str(threads), "-o", path]))
            for how, each in runs.items():
                best = max(each, key=lambda r: r["events_per_s"])
                best["events_per_s_median"] = median([r["events_per_s"] for r in each])
                result["%d threads, %s%s" % (threads, name, how)] = best
    return result


def firefox(build, repeats):
    """bench/firefox_bench.c: the exporter alone on a made-up trace of 10M events."""
    runs = [bench_program(build, "firefox_bench", ["-j", "-n", "10000000"]) for _ in range(repeats)]
    best = max(runs, key=lambda r: r["events_per_s"])
    return dict(best, events_per_s_median=median([r["events_per_s"] for r in runs]))


def probe_cost(build, argv, rounds):
    """bench/probe_cost.c: an event against an empty program at the same place."""
    run = subprocess.run([os.path.join(build, "bench", "probe_cost"), "-j", "-r", str(rounds), "--"] + argv +
                         [os.path.join(HERE, "cost_target.py")], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         universal_newlines=True)
    if run.returncode:
        raise Failed(run.stderr.strip())
    say("python %s: probes measured" % version(argv))
    return json.loads(run.stdout)
