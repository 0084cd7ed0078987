# SPDX-License-Identifier: Apache-2.0
"""A service of scripts/fleet-demo: sums rows up in JSON, in two threads that share the interpreter's lock."""
import json
import threading
import time


def rows(seed):
    return json.dumps([{"day": n % 7, "amount": (seed * 31 + n * 17) % 1000} for n in range(300)])


def summarise(text):
    days = [0] * 7
    for row in json.loads(text):
        days[row["day"]] += row["amount"]
    return days


def render(days):
    return "\n".join("%d %s" % (n, "#" * (amount // 4000)) for n, amount in enumerate(days))


def work(seed):
    while True:
        seed += 2
        render(summarise(rows(seed)))
        time.sleep(0.008)


for number in range(2):
    threading.Thread(target=work, args=(number,), name="reports-%d" % number).start()
