"""usage: greenlets.py OUT: greenlets that switch in mid-call, end, are thrown into; writes {name: calls}."""
import json
import sys

import greenlet

C = dict.fromkeys(["leaf", "worker", "deep", "dying"], 0)


def leaf(n):
    C["leaf"] += 1
    return n


def deep(n, main):
    C["deep"] += 1
    if n:
        return deep(n - 1, main)
    return main.switch(leaf(n))


def worker(main, k):
    C["worker"] += 1
    for i in range(20):
        leaf(i)
        deep(k, main)


def dying(main):
    C["dying"] += 1
    try:
        main.switch()
    finally:
        leaf(1)


def go():
    main = greenlet.getcurrent()
    gs = [greenlet.greenlet(worker) for _ in range(5)]
    for k, g in enumerate(gs):
        g.switch(main, k)
    for _ in range(25):
        for g in gs:
            if not g.dead:
                g.switch()
                leaf(0)
    d = greenlet.greenlet(dying)
    d.switch(main)
    try:
        d.throw(KeyError)
    except KeyError:
        leaf(2)


go()
with open(sys.argv[1], "w") as f:
    json.dump(C, f)
