# SPDX-License-Identifier: Apache-2.0
"""What the agent costs by itself: CPU with its part in the kernel, memory and bytes, on a machine of many Python processes.
In a pid namespace of its own, so that what else comes and goes on a shared machine is not looked at."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
WINDOW_S = 10


def start(argv, processes, busy):
    running = []
    for i in range(processes):
        running.append(subprocess.Popen([*argv, os.path.join(HERE, "agent_target.py"), "busy" if i < busy else "idle", str(i)],
                                        stdout=subprocess.PIPE))
    for process in running:
        assert process.stdout.readline() == b"ready\n"
    return running


def status(pyebpf, socket):
    done = subprocess.run([pyebpf, "agent", "status", "--json", "--socket", socket], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return json.loads(done.stdout) if done.returncode == 0 else None


def wait_for(pyebpf, socket, windows):
    while True:
        got = status(pyebpf, socket)
        if got and got["windows_total"] >= windows:
            return got
        time.sleep(0.2)


def memory_of(pid):
    text = pathlib.Path("/proc/%d/status" % pid).read_text()
    return {key: int(re.search(r"^%s:\s+(\d+)" % key, text, re.M)[1]) * 1024 for key in ("VmHWM", "VmRSS", "RssAnon")}


def measure(pyebpf, rate, windows, folder):
    """From the end of the first window on: what went before is the start."""
    socket, store = os.path.join(folder, "socket%d" % rate), os.path.join(folder, "store%d" % rate)
    agent = subprocess.Popen([pyebpf, "agent", "-q", "--store", store, "--socket", socket, "--listen", "", "--window", "%ds" % WINDOW_S,
                              "-r", str(rate)])
    try:
        first = wait_for(pyebpf, socket, 2)
        begin = time.monotonic()
        last = wait_for(pyebpf, socket, 2 + windows)
        elapsed, memory = time.monotonic() - begin, memory_of(agent.pid)
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


def inside(pyebpf, argv, processes, busy, windows):
    running = start(argv, processes, busy)
    try:
        with tempfile.TemporaryDirectory() as folder:
            return [measure(pyebpf, rate, windows, folder) for rate in (19, 99)]
    finally:
        for process in running:
            process.kill()


def run(pyebpf, argv, processes=200, busy=20, windows=6):
    done = subprocess.run(["unshare", "-pf", "--mount-proc", "--kill-child", sys.executable, os.path.abspath(__file__), pyebpf,
                           json.dumps(argv), str(processes), str(busy), str(windows)], stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


if __name__ == "__main__":
    json.dump(inside(sys.argv[1], json.loads(sys.argv[2]), *map(int, sys.argv[3:6])), sys.stdout)
