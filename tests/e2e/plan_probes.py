# SPDX-License-Identifier: Apache-2.0
"""Probe plans as `pyebpf list --probes` prints them, and tracefs uprobes on their sites, by which they
are counted without any BPF program of ours.
"""
import os
import re
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PYEBPF = os.environ.get("PYEBPF") or os.path.join(ROOT, "build", "pyebpf")
TRACEFS = "/sys/kernel/tracing"

# Flags of x86 that a conditional jump looks at.
CARRY, PARITY, ZERO, SIGN, OVERFLOW = 0x1, 0x4, 0x40, 0x80, 0x800
CONDITIONS = {
    "o": lambda f: f & OVERFLOW, "b": lambda f: f & CARRY, "e": lambda f: f & ZERO,
    "be": lambda f: f & (CARRY | ZERO), "s": lambda f: f & SIGN, "p": lambda f: f & PARITY,
    "l": lambda f: bool(f & SIGN) != bool(f & OVERFLOW),
    "le": lambda f: f & ZERO or bool(f & SIGN) != bool(f & OVERFLOW),
}
OPPOSITE = {"no": "o", "ae": "b", "ne": "e", "a": "be", "ns": "s", "np": "p", "ge": "l", "g": "le"}


def holds(condition, flags):
    if not condition:
        return True
    if condition in OPPOSITE:
        return not CONDITIONS[OPPOSITE[condition]](flags)
    return bool(CONDITIONS[condition](flags))


class Site:
    def __init__(self, row):
        self.kind, self.name, self.insn = row["KIND"], row["SITE"], row["INSTRUCTION"]
        self.addr, self.offset = int(row["ADDRESS"], 16), int(row["OFFSET"], 16)
        self.object = row["OBJECT"]
        self.single_step = row["HOW"].startswith("SINGLE-STEP")
        found = re.search(r" if (\w+)", row["HOW"])
        self.condition = found[1] if found else ""
        found = re.search(r"semaphore=0x(\w+)", row["HOW"])
        self.semaphore = int(found[1], 16) if found else None


class Plan:
    def __init__(self, elf, engine="auto"):
        self.elf = elf
        command = [PYEBPF, "list", "--probes", elf, "--engine", engine]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              universal_newlines=True)
        self.status, self.error = done.returncode, done.stderr
        self.text = done.stdout
        if done.returncode:
            return
        head, columns, *rows = done.stdout.splitlines()
        self.minor = int(re.search(r"CPython 3\.(\d+)", head)[1])
        self.free_threaded = "free-threaded" in head
        self.engine = re.search(r"engine (\w+)", head)[1]
        starts = [(m.group(), m.start()) for m in re.finditer(r"\S+", columns)]
        ends = [start for _, start in starts[1:]] + [None]
        self.sites = [Site({name: row[start:end].strip()
                            for (name, start), end in zip(starts, ends)})
                      for row in rows if re.match(r"  0x", row)]


def write(name, text, append=False):
    fd = os.open(os.path.join(TRACEFS, name), os.O_WRONLY | (os.O_APPEND if append else 0))
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def available():
    if os.geteuid():
        return False
    if not os.path.exists(TRACEFS + "/uprobe_events"):
        subprocess.run(["mount", "-t", "tracefs", "tracefs", TRACEFS], stderr=subprocess.DEVNULL)
    return os.path.exists(TRACEFS + "/uprobe_events")


def register(name):
    """A register as tracefs calls it."""
    return "%" + (name[1:] if re.match(r"r[a-d]x|r[sd]i|r[bs]p", name) else name)


def fetch(site):
    """The object of a site as a fetch argument, or None if the site does not say where it is."""
    found = re.match(r"(\[)?(r\w+)([+-]\d+)?\]?$", site.object)
    if not found:
        return None
    slot, reg, disp = found.groups()
    if slot:
        return "%+d(%s)" % (int(disp or 0), register(reg))
    return (register(reg), int(disp or 0))


def dereference(argument, offset):
    if isinstance(argument, tuple):
        return "%+d(%s)" % (argument[1] + offset, argument[0])
    return "%+d(%s)" % (offset, argument)


class Uprobes:
    """Uprobes of our own on the sites of a plan, in a trace instance of our own."""

    def __init__(self, plan, code_at, type_at):
        self.plan = plan
        self.group = "pyebpf_%d" % os.getpid()
        self.instance = TRACEFS + "/instances/" + self.group
        self.code_at, self.type_at = code_at, type_at
        self.names = []

    def arguments(self, site):
        out = " flags=%flags:x64"
        argument = fetch(site)
        if argument is None:
            return out
        if site.kind == "code-dealloc":
            return out + " type=%s:x64" % dereference(argument, self.type_at)
        code = dereference(argument, self.code_at)
        # from 3.14 on the lowest bit of the pointer is a tag
        return out + " code=%s:x64 type=%s:x64 tagged=%s:x64" % (
            code, dereference(code, self.type_at), dereference(code, self.type_at - 1))

    def __enter__(self):
        try:
            os.mkdir(self.instance)
            write("instances/%s/buffer_size_kb" % self.group, "40960")
            for k, site in enumerate(self.plan.sites):
                name = "s%d" % k
                semaphore = "(0x%x)" % site.semaphore if site.semaphore else ""
                write("uprobe_events", "p:%s/%s %s:0x%x%s%s\n" % (
                    self.group, name, os.path.realpath(self.plan.elf), site.offset, semaphore,
                    self.arguments(site)), append=True)
                self.names.append(name)
            write("instances/%s/events/%s/enable" % (self.group, self.group), "1")
        except OSError:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc):
        if self.names:
            write("instances/%s/events/%s/enable" % (self.group, self.group), "0")
        for name in self.names:
            write("uprobe_events", "-:%s/%s\n" % (self.group, name), append=True)
        os.rmdir(self.instance)

    def run(self, command):
        """Hits of each site, conditions respected, and the types of the objects seen there."""
        write("instances/%s/trace" % self.group, "\n")
        # other processes may run the same file, this one for instance
        script = 'echo $$ >%s/set_event_pid; exec "$@"' % self.instance
        child = subprocess.Popen(["sh", "-c", script, "sh"] + command, stdout=subprocess.DEVNULL,
                                 env=dict(os.environ, PYTHONDONTWRITEBYTECODE="1", PYTHONHASHSEED="0"))
        if child.wait():
            raise RuntimeError("exit status %d of %r" % (child.returncode, command))
        hits = [0] * len(self.plan.sites)
        types = [set() for _ in self.plan.sites]
        with open(self.instance + "/trace", errors="replace") as f:
            for line in f:
                found = re.match(r".*-%d +\[.*? s(\d+): \(.*?\)(.*)" % child.pid, line)
                if not found:
                    assert "LOST" not in line, line
                    continue
                k, values = int(found[1]), dict(re.findall(r"(\w+)=(\S+)", found[2]))
                if not holds(self.plan.sites[k].condition, int(values["flags"], 16)):
                    continue
                hits[k] += 1
                if "type" in values:
                    tag = "code" in values and values["code"] != "(fault)" and int(values["code"], 16) & 1
                    types[k].add(values["tagged" if tag else "type"])
        return hits, types
