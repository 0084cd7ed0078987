"""usage: own_greenlets.py N [told]: each of N greenlets calls functions of its own right when C code has switched to it; all of
them under a profile function."""
import random
import sys

import greenlet

MADE = """
def leaf_{0}(): return 0
def node_{0}(): leaf_{0}()
class Made_{0}:
    def __init__(self): node_{0}()
def root_{0}():
    sys.setprofile(told)
    for _ in range(20):
        switch[{0}]()
        node_{0}()
        Made_{0}()
        switch[{0}]()
        Made_{0}()
"""


def watch(*_):
    pass


count, told = int(sys.argv[1]), watch if "told" in sys.argv else None
switch, names = {}, {"sys": sys, "told": told}
names["switch"] = switch
for number in range(count):
    exec(MADE.format(number), names)
made = [greenlet.greenlet(names["root_%d" % number]) for number in range(count)]
order = list(range(count))
random.Random(count).shuffle(order)
for here, there in zip(order, order[1:] + order[:1]):
    switch[here] = made[there].switch
sys.setprofile(told)
made[order[0]].switch()
for each in made:
    while not each.dead:
        each.switch()
sys.setprofile(None)
