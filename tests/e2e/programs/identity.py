"""Prints who runs it and what it holds, as JSON."""
import json
import os
import sys


def leaf():
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    fds = {}
    for fd in os.listdir("/proc/self/fd"):
        try:
            fds[fd] = os.readlink("/proc/self/fd/" + fd)
        except OSError:
            pass
    return {"uid": status["Uid"].split(), "gid": status["Gid"].split(), "groups": status["Groups"].split(), "cap": status["CapEff"].strip(),
            "fds": fds, "home": os.environ.get("HOME"), "sig": [status["SigBlk"].strip(), status["SigIgn"].strip()],
            "tracer": status["TracerPid"].strip()}


json.dump(leaf(), sys.stdout)
