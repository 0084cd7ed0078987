# SPDX-License-Identifier: Apache-2.0
"""Taking things away from a process: capabilities, system calls, the host around it."""
import ctypes
import os
import shlex
import struct

MINIMUM = ("bpf", "perfmon", "sys_ptrace", "dac_read_search", "checkpoint_restore")
NOBODY = 65534
MARKS = {"docker": ".dockerenv", "podman": "run/.containerenv", "container": "run/systemd/container"}


def as_nobody(*capabilities):
    """The beginning of a command line that runs as nobody with exactly these capabilities."""
    command = ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"]
    if capabilities:
        given = ",".join("+" + name for name in capabilities)
        command += ["--inh-caps", given, "--ambient-caps", given]
    return command


def refuse_bpf(command, number):
    """For a child: the bpf() system call with this command fails with that number, by a seccomp filter."""
    allow, fail = 0x7fff0000, 0x00050000 | number
    filters = [(0x20, 0, 0, 0), (0x15, 0, 3, 321), (0x20, 0, 0, 16), (0x15, 0, 1, command),
               (0x06, 0, 0, fail), (0x06, 0, 0, allow)]
    code = b"".join(struct.pack("HBBI", *row) for row in filters)
    buffer = ctypes.create_string_buffer(code)
    program = struct.pack("HxxxxxxQ", len(filters), ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)

    def install():
        if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, program, 0, 0):
            os._exit(99)
    install.keep = buffer
    return install


def refuse_call(number, errno):
    """For a child: a system call fails with this errno, or with 0 only seems to work, by a seccomp filter."""
    code = b"".join(struct.pack("HBBI", *row) for row in [
        (0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, 0x00050000 | errno), (0x06, 0, 0, 0x7fff0000)])
    buffer = ctypes.create_string_buffer(code)
    program = struct.pack("HxxxxxxQ", 4, ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)

    def install():
        if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, program, 0, 0):
            os._exit(99)
    install.keep = buffer
    return install


def without(mount, files=()):
    """The beginning of a command line for which an empty folder, or one with these files ({name: text}), lies
    over another one."""
    lines = ["mount -t tmpfs none %s" % shlex.quote(mount)]
    lines += ["printf %%s %s > %s/%s" % (shlex.quote(text), shlex.quote(mount), name)
              for name, text in dict(files).items()]
    return ["unshare", "--mount", "sh", "-ec", "; ".join(lines) + '; exec "$0" "$@"']


def place(kind, folder):
    """The beginning of a command line that runs where the marks of a container engine are, or of none: "host",
    "docker", "podman", "container", "kubernetes". `folder`: an empty one, becomes the root."""
    folder = str(folder)
    lines = []
    for name in sorted(os.listdir("/")):
        path = "/" + name
        if os.path.islink(path):
            lines.append("ln -s %s %s" % (os.readlink(path), folder + path))
        elif os.path.isdir(path) and name != "run":
            lines.append("mkdir %s; mount --rbind %s %s" % (folder + path, path, folder + path))
    lines.append("mkdir -p %s/run/systemd" % folder)
    if kind in MARKS:
        lines.append("touch %s/%s" % (folder, MARKS[kind]))
    if kind == "kubernetes":
        lines.append("export KUBERNETES_SERVICE_HOST=10.0.0.1")
    lines.insert(0, "mount -t tmpfs none %s" % folder)
    return ["env", "-u", "KUBERNETES_SERVICE_HOST", "unshare", "--mount", "sh", "-ec",
            "; ".join(lines) + '; exec chroot %s "$0" "$@"' % folder]
