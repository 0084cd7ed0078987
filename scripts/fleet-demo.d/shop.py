# SPDX-License-Identifier: Apache-2.0
"""A service of scripts/fleet-demo: prices carts. The slow part is the discount rule, which asks for each article again."""
import time

PRICES = {"sku-%d" % n: 100 + 37 * n for n in range(400)}


class Cart:
    def __init__(self, number):
        self.items = ["sku-%d" % ((number * 7 + i) % 400) for i in range(30)]

    def subtotal(self):
        return sum(price(sku) for sku in self.items)

    def discounted(self):
        total = 0
        for sku in self.items:
            total += price(sku) * (100 - rule(self, sku)) // 100
        return total


def price(sku):
    return PRICES[sku]


def rule(cart, sku):
    return sum(1 for other in cart.items if price(other) < price(sku)) % 20


def main():
    number = 0
    while True:
        for _ in range(12):
            number += 1
            cart = Cart(number)
            assert cart.discounted() <= cart.subtotal()
        time.sleep(0.02)


main()
