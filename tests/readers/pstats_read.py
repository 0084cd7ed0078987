# SPDX-License-Identifier: Apache-2.0
"""Runs in any interpreter: pstats_read.py FILE prints as JSON what Python's own pstats sees in it, after
having it print its tables."""
import io
import json
import pstats
import sys


def key(func):
    return "%s:%d:%s" % func


def main():
    stream = io.StringIO()
    stats = pstats.Stats(sys.argv[1], stream=stream)
    stats.sort_stats("cumulative").print_stats()
    stats.print_callers()
    stats.print_callees()
    twice = pstats.Stats(sys.argv[1], stream=stream).add(sys.argv[1])
    json.dump({
        "funcs": {key(func): list(values[:4]) for func, values in stats.stats.items()},
        "callers": {key(func): {key(caller): list(edge) for caller, edge in values[4].items()}
                    for func, values in stats.stats.items()},
        "calls": stats.total_calls, "primitive": stats.prim_calls, "seconds": stats.total_tt,
        "twice": twice.total_calls, "printed": stream.getvalue(),
    }, sys.stdout)


main()
