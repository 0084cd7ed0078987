"""usage: children.py HOW OUT [OTHER...]: starts processes that call child_leaf; writes {pid: calls} of all of them to OUT, a line each.

HOW: fork, double (fork of a fork), storm (200 forks), spawn, forkserver, mp_fork, run (OTHER: an interpreter's command),
run_many (several OTHER separated by --), exec_same, exec_other, exec_none; 
In the environment: PYEBPF_TEST_FLAG, a file that it waits for at its start; PYEBPF_TEST_DELAY, seconds before a child's calls.
"""
import os
import subprocess
import sys
import time

HERE = os.path.abspath(__file__)


def child_leaf(n):
    return n


def parent_leaf(n):
    return n


def calls(n, out):
    time.sleep(float(os.environ.get("PYEBPF_TEST_DELAY", "0")))
    for i in range(n):
        child_leaf(i)
    with open(out, "a") as f:
        f.write("%d %d\n" % (os.getpid(), n))


def fork(n, out, deeper=0):
    pid = os.fork()
    if not pid:
        if deeper:
            fork(n + 1, out, deeper - 1)
        calls(n, out)
        os._exit(0)
    os.waitpid(pid, 0)


def main(how, out, other):
    flag = os.environ.get("PYEBPF_TEST_FLAG")
    if flag:
        print(os.getpid(), flush=True)
        while not os.path.exists(flag):
            time.sleep(0.01)
            parent_leaf(0)
    for i in range(100):
        parent_leaf(i)
    if how == "fork":
        fork(50, out)
    elif how == "double":
        fork(50, out, 2)
    elif how == "storm":
        for i in range(200):
            fork(3 + i % 3, out)
    elif how in ("spawn", "forkserver", "mp_fork"):
        import multiprocessing
        mp = multiprocessing.get_context(how.replace("mp_", ""))
        ps = [mp.Process(target=calls, args=(20 + k, out)) for k in range(3)]
        for p in ps:
            p.start()
        for p in ps:
            p.join()
            assert p.exitcode == 0, p.exitcode
    elif how == "run":
        subprocess.check_call(other + [HERE, "calls", out])
    elif how == "run_many":
        while other:
            end = other.index("--") if "--" in other else len(other)
            subprocess.check_call(other[:end] + [HERE, "calls", out])
            other = other[end + 1:]
    elif how == "calls":
        calls(70, out)
    elif how == "exec_same":
        os.execv(sys.executable, [sys.executable, HERE, "calls", out])
    elif how == "exec_other":
        os.execvp(other[0], other + [HERE, "calls", out])
    elif how == "exec_none":
        os.execv("/bin/sh", ["sh", "-c", "sleep 0.3; exit 7"])
    for i in range(100):
        parent_leaf(i)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
