# SPDX-License-Identifier: Apache-2.0
"""A service of scripts/fleet-demo: finds documents by their words, and ranks them."""
import collections
import time

WORDS = ["%s%s" % (a, b) for a in ("ba", "ke", "li", "mo", "su") for b in ("ra", "ten", "vis", "nor", "gal", "dim")]
DOCUMENTS = {n: [WORDS[(n * k + k * k) % len(WORDS)] for k in range(40)] for n in range(120)}


def index():
    table = collections.defaultdict(set)
    for number, words in DOCUMENTS.items():
        for word in words:
            table[word].add(number)
    return table


def rank(number, query):
    return sum(DOCUMENTS[number].count(word) for word in query)


def find(table, query):
    candidates = set.union(*(table[word] for word in query))
    return sorted(candidates, key=lambda number: -rank(number, query))[:10]


def main():
    turn = 0
    table = index()
    while True:
        turn += 1
        find(table, [WORDS[turn % 30], WORDS[turn * 7 % 30], WORDS[turn * 11 % 30]])
        if turn % 40 == 0:
            table = index()
        time.sleep(0.004)


main()
