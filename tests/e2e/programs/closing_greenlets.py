"""usage: closing_greenlets.py N: what each of N greenlets does first when C code has switched to it is to close a generator."""
import sys

import greenlet

MADE = """
def held_{0}():
    try: yield
    finally: pass
def each_{0}():
    yield
def root_{0}():
    for i in range(20):
        made = each_{0}() if i % 2 else held_{0}()
        next(made)
        switch[{0}]()
        made.close()
"""

count = int(sys.argv[1])
switch = {}
names = {"switch": switch}
for number in range(count):
    exec(MADE.format(number), names)
made = [greenlet.greenlet(names["root_%d" % number]) for number in range(count)]
for here in range(count):
    switch[here] = made[(here + 1) % count].switch
made[0].switch()
for each in made:
    while not each.dead:
        each.switch()
