"""usage: lost_greenlets.py N [later]: N greenlets that never begin or end anything but calls of leaves, turn by turn, some seconds long, from the
first line that comes in. later: it waits for another line before it loads greenlet."""
import sys
import time

if sys.argv[2:] == ["later"]:
    print("begun", flush=True)
    sys.stdin.readline()
import greenlet

MADE = """
def leaf_{0}(): return 0
def inner_{0}():
    while going:
        for _ in range(15):
            leaf_{0}()
        main.switch()
def root_{0}():
    inner_{0}()
"""
count = int(sys.argv[1])
main = greenlet.getcurrent()
names = {"main": main, "going": True}
for number in range(count):
    exec(MADE.format(number), names)
made = [greenlet.greenlet(names["root_%d" % number]) for number in range(count)]
for each in made:
    each.switch()
print("ready", flush=True)
sys.stdin.readline()
for _ in range(60):
    for each in made:
        each.switch()
    time.sleep(0.05)
names["going"] = False
for each in made:
    each.switch()
print("done", flush=True)
sys.stdin.readline()
