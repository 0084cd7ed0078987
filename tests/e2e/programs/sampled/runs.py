"""usage: runs.py PYTHON...: once there is a line on stdin, six programs of that interpreter, one after the other, each of which
computes, sleeps for 0.3 s and says its pid."""
import subprocess
import sys

CHILD = """import os, time
def spin():
    while time.process_time() < 0.3: pass
def nap():
    time.sleep(0.3)
spin()
nap()
print(os.getpid(), flush=True)
"""

print("up", flush=True)
sys.stdin.readline()
for _ in range(6):
    subprocess.check_call(sys.argv[1:] + ["-c", CHILD])
