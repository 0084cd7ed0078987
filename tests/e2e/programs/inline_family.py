# SPDX-License-Identifier: Apache-2.0
"""usage: inline_family.py WHAT COUNT: children of all sorts, each of which calls `work` as often as its argument says. The
program prints {pid: calls} of all of them, as the children themselves said. $FAMILY_PYTHON: the interpreter's command, as JSON."""
import json
import os
import subprocess
import sys
import threading


def work():
    pass


def report(calls):
    for _ in range(calls):
        work()
    return json.dumps([os.getpid(), calls])


def fork(calls, inside=None):
    """A child by fork(); what it says."""
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        said = [report(calls)] + ([inside(calls + 1)] if inside else [])
        os.write(write, ";".join(said).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        said = pipe.read()
    assert os.waitpid(pid, 0)[1] == 0
    return said


def grandchild(calls):
    return fork(calls)


def execute(calls, shell=False):
    args = json.loads(os.environ["FAMILY_PYTHON"]) + [os.path.abspath(__file__), "report", str(calls)]
    if shell:
        args = ["sh", "-c", "true; \"$@\"; true", "sh"] + args
    return subprocess.run(args, stdout=subprocess.PIPE, check=True).stdout.decode().strip()


def in_threads(calls):
    said = []

    def one(n):
        for _ in range(3):
            said.append(fork(n))
    threads = [threading.Thread(target=one, args=(calls + k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return ";".join(said)


KINDS = {"fork": fork, "grandchild": lambda n: fork(n, grandchild), "exec": execute, "shell": lambda n: execute(n, True),
         "both": lambda n: fork(n, execute), "threads": in_threads}

if __name__ == "__main__":
    what, count = sys.argv[1], int(sys.argv[2])
    if what == "report":
        print(report(count))
        sys.exit()
    sys.stdin.readline()
    said = [report(7)]
    for i in range(count):
        said.append(KINDS[what](100 + i))
    print(json.dumps(dict(json.loads(s) for part in said for s in part.split(";"))), flush=True)
