"""usage: held_greenlets.py N [OUT]: N greenlets, each some calls deep, stand still until a line comes in; then they go on by turns. OUT: the
stack of each call from then on, as sys.setprofile() sees it."""
import json
import sys

import greenlet

MADE = """
def leaf_{0}(): return 0
def inner_{0}(n):
    if n:
        inner_{0}(n - 1)
        leaf_{0}()
        return
    for _ in range(3):
        main.switch()
        leaf_{0}()
def outer_{0}():
    inner_{0}({0} % 7)
    try:
        gone_{0}()
    except ValueError:
        leaf_{0}()
def gone_{0}():
    main.switch()
    raise ValueError
def root_{0}():
    main.switch()
    for _ in made_{0}():
        outer_{0}()
def made_{0}():
    main.switch()
    yield 1
"""
count = int(sys.argv[1])
main = greenlet.getcurrent()
names = {"main": main}
for number in range(count):
    exec(MADE.format(number), names)
made = [greenlet.greenlet(names["root_%d" % number]) for number in range(count)]
for each in made:
    for _ in range(made.index(each) % 6):
        each.switch()
stacks = []


def on_call(frame, event, _):
    if event == "call":
        stack = []
        while frame:
            stack.append(frame.f_code.co_name)
            frame = frame.f_back
        stacks.append(stack[::-1])


print("ready", flush=True)
sys.stdin.readline()
if len(sys.argv) > 2:
    sys.setprofile(on_call)
while made:
    for each in made:
        each.switch()
    made = list(filter(lambda each: not each.dead, made))
sys.setprofile(None)
if len(sys.argv) > 2:
    with open(sys.argv[2], "w", encoding="utf-8") as out:
        json.dump(stacks, out)
print("done", flush=True)
sys.stdin.readline()
