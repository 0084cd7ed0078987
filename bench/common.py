# SPDX-License-Identifier: Apache-2.0
"""What the parts of scripts/bench share: interpreters, pinning, running things, tables."""
import json
import os
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
CPU_TARGET, CPU_TOOL = 1, 0
ALLOWED = os.sched_getaffinity(0)  # before anything is pinned: children inherit that
CACHE = os.environ.get("PYEBPF_CACHE") or os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "pyebpf")
# Newest that pip gives to 3.12 and 3.13; fixed, so that runs compare.
PACKAGES = ["viztracer==1.1.1", "django==5.2.8"]


class Failed(Exception):
    pass


def say(*args):
    print(*args, file=sys.stderr, flush=True)


def pin(cpu):
    """For preexec_fn: this process and its children on one CPU, where there is more than one, before
    whatever else runs on a shared machine."""
    def pinned():
        try:
            os.setsid()  # so that the next line is about this process alone
        except OSError:
            pass
        try:
            os.setpriority(os.PRIO_PROCESS, 0, -20)
            with open("/proc/self/autogroup", "w") as f:
                f.write("-20")
        except OSError:
            pass
        if cpu in ALLOWED:
            os.sched_setaffinity(0, {cpu})
    return pinned


def quantile(values, q):
    values = sorted(values)
    return values[int(q * (len(values) - 1) + 0.5)]


def median(values):
    return statistics.median(values)


def middle_half(ratios):
    """What of slices of one run is told: the median, and the bounds of the half around it."""
    return {"slowdown": median(ratios), "least": quantile(ratios, 0.25), "most": quantile(ratios, 0.75), "slices": len(ratios)}


def slowdown_text(cell):
    return "%.3f (%.3f-%.3f)" % (cell["slowdown"], cell["least"], cell["most"])


def table(title, header, rows):
    widths = [max(len(str(row[i])) for row in [header] + rows) for i in range(len(header))]
    print("\n%s" % title)
    for n, row in enumerate([header] + rows):
        print("| " + " | ".join(str(c).ljust(w) for c, w in zip(row, widths)) + " |")
        if not n:
            print("|" + "|".join("-" * (w + 2) for w in widths) + "|")
    sys.stdout.flush()


def pythons():
    """name -> argv of every interpreter that scripts/pythons has gathered."""
    out = subprocess.run([os.path.join(ROOT, "scripts/pythons"), "--list"], stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL, universal_newlines=True).stdout
    return {line.split("\t")[0]: shlex.split(line.split("\t")[1]) for line in out.splitlines() if "\t" in line}


def choose(found, *prefixes):
    """The first interpreter whose name begins with one of these, in their order; None: none."""
    for prefix in prefixes:
        for name in sorted(found):
            if name.startswith(prefix):
                return found[name]
    return None


def ask(argv, code, **kwargs):
    run = subprocess.run(argv + ["-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                         universal_newlines=True, **kwargs)
    return run.stdout.strip() if run.returncode == 0 else ""


def version(argv):
    return ask(argv, "import sys; print('%d.%d.%d' % sys.version_info[:3])")


def packages(argv):
    """Folder with the pinned packages of PyPI for this interpreter (in the cache), or None and why.

    An interpreter without pip is served by another one's."""
    ver = version(argv)
    folder = os.path.join(CACHE, "bench", "-".join(PACKAGES).replace("==", "-") + "-py" + ver)
    if os.path.isdir(folder):
        return folder, ""
    work = "%s.%d" % (folder, os.getpid())
    foreign = ["--python-version", ver, "--implementation", "cp", "--only-binary", ":all:"]
    tries = [(argv, []), ([sys.executable], foreign), (["/usr/bin/python3"], foreign)]
    venv = work + ".venv"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    if subprocess.run(argv + ["-m", "venv", venv], **quiet).returncode == 0:
        tries.insert(0, ([os.path.join(venv, "bin", "python")], []))
    why = "no pip"
    for pip, options in tries:
        command = pip + ["-m", "pip", "install", "-q", "--no-compile", "--target", work]
        run = subprocess.run(command + options + PACKAGES, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, universal_newlines=True)
        if run.returncode == 0:
            shutil.rmtree(venv, ignore_errors=True)
            subprocess.run(argv + ["-m", "compileall", "-q", work], **quiet)
            os.rename(work, folder)
            return folder, ""
        if "No module named pip" not in run.stdout:
            why = (run.stdout.strip().splitlines() or ["pip failed"])[-1]
        shutil.rmtree(work, ignore_errors=True)
    shutil.rmtree(venv, ignore_errors=True)
    return None, why


class Target:
    """A workload that waits for go(); pinned to the target's CPU."""

    def __init__(self, argv, workload, out, size=None, env=None, cwd=None):
        command = argv + [os.path.join(HERE, "workloads.py"), workload, "--wait", "--out", out]
        if size:
            command += ["--size", str(size)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, cwd=cwd,
                                        universal_newlines=True, preexec_fn=pin(CPU_TARGET))
        line = self.process.stdout.readline()
        if not line.strip():
            raise Failed("%s did not start" % workload)
        self.pid = int(line)

    def go(self, stay=False):
        """Begin; with stay the process waits after its work, until end()."""
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        if not stay:
            self.process.stdin.close()

    def wait(self, timeout=180):
        return self.process.wait(timeout)

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass


class Tracer:
    """`pyebpf trace`, pinned to the tool's CPU. Its messages (-v) say when the probes are in place."""

    def __init__(self, pyebpf, arguments, verbose=True, cpu=CPU_TOOL):
        self.start_ns = time.monotonic_ns()
        self.process = subprocess.Popen([pyebpf, "trace"] + (["-v"] if verbose else []) + arguments,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                        universal_newlines=True, errors="replace", preexec_fn=pin(cpu))
        self.said = []

    def wait_attached(self, pid):
        for line in self.process.stderr:
            self.said.append(line)
            if "probes in" in line and line.rstrip().endswith("pid %d" % pid):
                return
        raise Failed("pyebpf did not attach: " + "".join(self.said[-3:]))

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)

    def finish(self, timeout=300):
        """Wait for the end; what it said on stderr."""
        try:
            rest = self.process.communicate(timeout=timeout)[1]
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
            raise Failed("pyebpf did not end")
        return "".join(self.said) + (rest or "")

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()


def summary_counts(said):
    """(written, lost) of the summary that trace prints."""
    written = lost = None
    for line in said.splitlines():
        words = line.split()
        if words[:1] == ["events"] and len(words) > 1:
            written = int(words[1].replace(",", ""))
        if words[:1] == ["lost"] and len(words) > 1:
            lost = int(words[1].replace(",", ""))
    return written, lost


def load(path):
    with open(path) as f:
        return json.load(f)
