# SPDX-License-Identifier: Apache-2.0
"""What the agent costs by itself: CPU with its part in the kernel, memory and bytes, on a machine of many Python processes.
In a pid namespace of its own, so that what else comes and goes on a shared machine is not looked at. Beside it, on the same processes, the
OpenTelemetry eBPF profiler, with the real collector behind it (tests/peers/peers.py otel-ebpf-profiler otelcol builds them); it cannot be in
a pid namespace, so it looks at the whole machine."""
import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
WINDOW_S = 60  # the agent's default
RATES = (19, 99)
RIVAL_RATES = {19: 20, 99: 99}  # its default is 20
START_S = 15  # of both: they look at the processes that there are, and first hear of functions
STATS = pathlib.Path("/proc/sys/kernel/bpf_stats_enabled")
# In a mount namespace of its own: what comes behind is executed in the same process.
WITH_TRACEFS = ["unshare", "-m", "sh", "-c", 'mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null; exec "$@"', "sh"]
COLLECTOR = """receivers: {otlp: {protocols: {grpc: {endpoint: "127.0.0.1:%d", max_recv_msg_size_mib: 64}}}}
exporters: {file: {path: profiles.json}}
service: {telemetry: {metrics: {level: none}}, pipelines: {profiles: {receivers: [otlp], exporters: [file]}}}
"""


def start(argv, processes, busy):
    running = []
    for i in range(processes):
        running.append(subprocess.Popen([*argv, os.path.join(HERE, "agent_target.py"), "busy" if i < busy else "idle", str(i)],
                                        stdout=subprocess.PIPE, start_new_session=True))  # as services are: each has its share of the CPUs
    for process in running:
        assert process.stdout.readline() == b"ready\n"
    return running


def status(pyebpf, socket):
    done = subprocess.run([pyebpf, "agent", "status", "--json", "--socket", socket], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return json.loads(done.stdout) if done.returncode == 0 else None


def wait_for(pyebpf, socket, windows):
    """Seldom asked: each time a program is executed, which the agent looks at, and an answer is made."""
    while True:
        got = status(pyebpf, socket)
        if got and got["windows_total"] >= windows:
            return got
        time.sleep(2)


def memory_of(pid):
    text = pathlib.Path("/proc/%d/status" % pid).read_text()
    return {key: int(re.search(r"^%s:\s+(\d+)" % key, text, re.M)[1]) * 1024 for key in ("VmHWM", "VmRSS", "RssAnon")}


def measure(pyebpf, rate, windows, folder):
    """From some time after the first window, which ends early, on: what went before is the start. Nobody asks meanwhile."""
    socket, store = os.path.join(folder, "socket%d" % rate), os.path.join(folder, "store%d" % rate)
    agent = subprocess.Popen([pyebpf, "agent", "-q", "--store", store, "--socket", socket, "--listen", "", "--window", "%ds" % WINDOW_S,
                              "-r", str(rate)])
    try:
        launched = time.monotonic()
        wait_for(pyebpf, socket, 1)
        time.sleep(max(0, launched + START_S - time.monotonic()))
        begin, first = time.monotonic(), status(pyebpf, socket)
        time.sleep(windows * WINDOW_S)
        elapsed, last, memory = time.monotonic() - begin, status(pyebpf, socket), memory_of(agent.pid)
    finally:
        agent.terminate()
        agent.wait(60)
    grown = {k: last[k] - first[k] for k in last if k.endswith("_total")}
    closed = grown["windows_total"]
    return {"rate": rate, "targets": last["targets"], "seconds": elapsed, "samples": grown["samples_total"],
            "samples_skipped": grown["samples_skipped_total"], "lost": sum(last["lost"].values()),
            "cpu_pct": grown["agent_cpu_seconds_total"] / elapsed * 100, "bpf_pct": grown["bpf_run_seconds_total"] / elapsed * 100,
            "window_cpu_ms": grown["window_cpu_seconds_total"] / closed * 1e3,
            "bytes_per_minute": grown["profile_bytes_total"] / closed * 60 / WINDOW_S, "start_cpu_s": first["agent_cpu_seconds_total"],
            "rss_mb": memory["VmRSS"] / 1e6, "peak_mb": memory["VmHWM"] / 1e6, "own_mb": memory["RssAnon"] / 1e6}


# --- the rival ---

def cpu_s(pid):
    fields = pathlib.Path("/proc/%d/stat" % pid).read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def bpf_s(pid):
    """In the kernel programs that it holds, while the kernel counts that."""
    programs = json.loads(subprocess.run(["bpftool", "-j", "prog", "show"], stdout=subprocess.PIPE, check=True).stdout)
    held = set()
    for info in pathlib.Path("/proc/%d/fdinfo" % pid).iterdir():
        with contextlib.suppress(OSError):
            held.update(map(int, re.findall(r"^prog_id:\s+(\d+)", info.read_text(), re.M)))
    return sum(p.get("run_time_ns", 0) for p in programs if p["id"] in held) / 1e9


@contextlib.contextmanager
def counted():
    """The kernel measures BPF programs, as long as this lasts; others may have it so already."""
    before = STATS.read_text()
    STATS.write_text("1")
    try:
        yield
    finally:
        STATS.write_text(before)


def rival(rate, seconds):
    """The other profiler for so long, after its start. A reason, if it is not there."""
    sys.path[:0] = [os.path.join(HERE, "..", "tests", name) for name in ("peers", "agent", "e2e", "accept", ".")]
    import clickhouse  # pylint: disable=import-outside-toplevel
    import peers  # pylint: disable=import-outside-toplevel
    import served  # pylint: disable=import-outside-toplevel
    found = {name: peers.found(name) for name in ("otel-ebpf-profiler", "otelcol")}
    for name, (path, why) in found.items():
        if not path:
            return {"rate": rate, "why": "%s: %s" % (name, why)}
    port = clickhouse.free_port()
    with tempfile.TemporaryDirectory() as name, counted():
        folder = pathlib.Path(name)
        (folder / "c.yaml").write_text(COLLECTOR % port)
        with served.running([found["otelcol"][0], "--config", "c.yaml", "--feature-gates=service.profilesSupport"], port, folder):
            launched = time.monotonic()
            with (folder / "log").open("wb") as log:
                process = subprocess.Popen([*WITH_TRACEFS, found["otel-ebpf-profiler"][0], "-collection-agent", "127.0.0.1:%d" % port,
                                            "-disable-tls", "-samples-per-second", str(rate)], stdout=log, stderr=log)
            try:
                while process.poll() is None and "Attached tracer program" not in (folder / "log").read_text("utf-8", "replace"):
                    time.sleep(0.2)
                started = time.monotonic() - launched
                time.sleep(START_S)
                if process.poll() is not None:
                    return {"rate": rate, "why": (folder / "log").read_text("utf-8", "replace").strip()[-300:]}
                begin, cpu, bpf, sent = time.monotonic(), cpu_s(process.pid), bpf_s(process.pid), (folder / "profiles.json").stat().st_size
                time.sleep(seconds)
                elapsed, memory = time.monotonic() - begin, memory_of(process.pid)
                return {"rate": rate, "seconds": elapsed, "cpu_pct": (cpu_s(process.pid) - cpu) / elapsed * 100,
                        "bpf_pct": (bpf_s(process.pid) - bpf) / elapsed * 100, "rss_mb": memory["VmRSS"] / 1e6, "peak_mb": memory["VmHWM"] / 1e6,
                        "own_mb": memory["RssAnon"] / 1e6, "start_cpu_s": cpu, "start_s": started,
                        "json_bytes_per_minute": ((folder / "profiles.json").stat().st_size - sent) / elapsed * 60}
            finally:
                process.kill()
                process.wait(30)


# --- both ---

def inside(pyebpf, argv, processes, busy, windows):
    """A line of JSON for each rate; who reads it has the rival measured, and then says so."""
    running = start(argv, processes, busy)
    try:
        with tempfile.TemporaryDirectory() as folder:
            for rate in RATES:
                print(json.dumps(measure(pyebpf, rate, windows, folder)), flush=True)
                sys.stdin.readline()
    finally:
        for process in running:
            process.kill()


def ordinary():
    """For preexec_fn: no longer before the rest of the machine. Busy targets that were would keep the kernel's own workers off the CPUs,
    for whom the end of a BPF program waits."""
    os.setsid()
    os.setpriority(os.PRIO_PROCESS, 0, 0)


def run(pyebpf, argv, processes=200, busy=20, windows=1):
    """([ours], [the rival's]), by rates."""
    ours, theirs = [], []
    with subprocess.Popen(["unshare", "-pf", "--mount-proc", "--kill-child", sys.executable, os.path.abspath(__file__), pyebpf,
                           json.dumps(argv), str(processes), str(busy), str(windows)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          encoding="utf-8", preexec_fn=ordinary) as done:
        for rate in RATES:
            ours.append(json.loads(done.stdout.readline()))
            theirs.append(rival(RIVAL_RATES[rate], windows * WINDOW_S))
            done.stdin.write("\n")
            done.stdin.flush()
        done.wait(60)
    return ours, theirs


if __name__ == "__main__":
    inside(sys.argv[1], json.loads(sys.argv[2]), *map(int, sys.argv[3:6]))
