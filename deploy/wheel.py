# SPDX-License-Identifier: Apache-2.0
"""A wheel that carries the static program: wheel.py VERSION BINARY FOLDER. Nothing of it is Python; pip puts the
program among the scripts of the environment."""
import base64
import hashlib
import os
import sys
import zipfile

TAG = "py3-none-manylinux2014_x86_64"  # a static program needs no library of the distribution
METADATA = """Metadata-Version: 2.1
Name: pyebpf
Version: %s
Summary: Profiler for running Python programs, from outside, through eBPF
License: Apache-2.0
Requires-Python: >=3.6
Classifier: Operating System :: POSIX :: Linux
Description-Content-Type: text/plain

pyebpf records every call and return of running Python programs, or samples their stacks, without a restart, a change or
an agent inside. It needs privileges for most of what it does, and sudo does not look into virtual environments:

    sudo "$(command -v pyebpf)" trace -p PID

or, once, a link where sudo looks:

    sudo ln -s "$(command -v pyebpf)" /usr/local/bin/pyebpf
"""


def main(version, binary, folder):
    path = os.path.join(folder, "pyebpf-%s-%s.whl" % (version, TAG))
    info = "pyebpf-%s.dist-info/" % version
    with open(binary, "rb") as f:
        program = f.read()
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "../LICENSE"), "rb") as f:
        licence = f.read()
    files = [("pyebpf-%s.data/scripts/pyebpf" % version, program, 0o755),
             (info + "METADATA", (METADATA % version).encode(), 0o644),
             (info + "WHEEL", b"Wheel-Version: 1.0\nGenerator: pyebpf\nRoot-Is-Purelib: false\nTag: %s\n" % TAG.encode(),
              0o644),
             (info + "LICENSE", licence, 0o644)]
    record = "".join("%s,sha256=%s,%d\n" % (name, base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode(),
                                            len(data)) for name, data, _ in files)
    files.append((info + "RECORD", (record + info + "RECORD,,\n").encode(), 0o644))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as z:
        for name, data, mode in files:
            entry = zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0))
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            z.writestr(entry, data)
    print(path)


if __name__ == "__main__":
    main(*sys.argv[1:])
