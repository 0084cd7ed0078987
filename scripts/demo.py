# SPDX-License-Identifier: Apache-2.0
"""The program that scripts/demo traces: a small shop that answers requests for some seconds.

Two threads take requests from a queue. Each request is parsed, priced by a recursive discount rule,
rendered by a generator, and now and then refused by an exception. One is slow without looking it:
which one, and why, is what a trace shows and a sample of the stack does not."""
import json
import os
import queue
import sys
import threading
import time

CATALOGUE = {"sku-%d" % n: {"name": "Article %d" % n, "cents": 100 + 37 * n} for n in range(200)}
COUPONS = ["winter", "returning", "staff"]


class Refused(Exception):
    """The customer's mistake; the request is answered all the same."""


class Order:
    def __init__(self, body):
        self.items = body["items"]
        self.coupon = body.get("coupon")

    @property
    def subtotal(self):
        return sum(price(sku) * count for sku, count in self.items)

    def total(self):
        return discount(self.subtotal, len(self.items)) if self.coupon else self.subtotal


def price(sku):
    if sku not in CATALOGUE:
        raise Refused(sku)
    return CATALOGUE[sku]["cents"]


def discount(cents, depth):
    """One percent for each article, one after the other, as the contract has it."""
    return cents if depth == 0 else discount(cents * 99 // 100, depth - 1)


def is_known(coupon):
    return any(coupon == known for known in COUPONS)


def lines(order):
    for sku, count in order.items:
        yield "%8.2f  %d x %s" % (count * price(sku) / 100, count, CATALOGUE[sku]["name"])


def audit(order):
    """The slow one: looks every article up by walking the whole catalogue."""
    return [name for sku, _ in order.items for name in sorted(CATALOGUE, key=key_of) if name == sku]


def key_of(sku):
    return int(sku.partition("-")[2])


def handle(text):
    order = Order(json.loads(text))
    if order.coupon and not is_known(order.coupon):
        raise Refused(order.coupon)
    if len(order.items) > 11:
        audit(order)
    return "\n".join(lines(order)) + "\n%.2f" % (order.total() / 100)


def work(requests):
    for text in iter(requests.get, None):
        try:
            handle(text)
        except Refused:
            pass
        time.sleep(0.002)


def request(n):
    items = [("sku-%d" % ((n * 7 + i) % 203), 1 + i % 3) for i in range(1 + n % 13)]
    return json.dumps({"items": items, "coupon": COUPONS[n % 3] if n % 4 else "expired"})


def main(seconds):
    requests = queue.Queue(maxsize=16)
    workers = [threading.Thread(target=work, args=(requests,), name="worker-%d" % n) for n in (1, 2)]
    for worker in workers:
        worker.start()
    print(os.getpid(), flush=True)
    end = time.monotonic() + seconds
    n = 0
    while time.monotonic() < end:
        requests.put(request(n))
        n += 1
    for _ in workers:
        requests.put(None)
    for worker in workers:
        worker.join()


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 10)
