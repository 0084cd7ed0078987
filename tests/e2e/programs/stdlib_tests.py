"""usage: stdlib_tests.py FLAG: prints its pid, then runs a part of the standard library's own tests again and again, until FLAG
exists. After each whole run it prints how many tests there were. Exit 1 at the first that fails, but for those that fail in
the first run, before anybody traces it (they start an interpreter that cannot be started so): these are left out."""
import os
import signal
import sys
import unittest

from test import support

support.verbose = False
signal.signal(signal.SIGINT, signal.default_int_handler)  # one of them sends it; who was started in the background ignores it
MODULES = ["test.test_" + name for name in (
    "generators", "coroutines", "contextlib", "scope", "raise", "with", "iter")]


class Result(unittest.TestResult):
    """Ends a run early once it is asked to."""

    def stopTest(self, test):
        super().stopTest(test)
        if os.path.exists(sys.argv[1]):
            self.stop()


def tests_of(suite):
    for test in suite:
        yield from tests_of(test) if isinstance(test, unittest.TestSuite) else [test]


# 3.11 and 3.12 die of these by themselves, after some 125 runs and more: _PyGen_yf() takes what follows the instruction of a running
# generator for one, but it can be that one's cache, which counts, until it looks like a RESUME.
DEADLY = ("test_generator_gi_yieldfrom", "test_cr_await")


def run():
    """All but those that are left out, each made anew."""
    every = tests_of(unittest.defaultTestLoader.loadTestsFromNames(MODULES))
    result = Result()
    unittest.TestSuite(test for test in every if test.id() not in left_out and not test.id().endswith(DEADLY)).run(result)
    return result


left_out = set()
first = run()
left_out = {test.id() for test, _ in first.failures + first.errors}
if len(left_out) > first.testsRun / 20:
    sys.exit("too many tests fail by themselves: %s" % sorted(left_out))
print(os.getpid(), flush=True)
while not os.path.exists(sys.argv[1]):
    result = run()
    for test, trace in result.failures + result.errors:
        sys.exit("%s\n%s" % (test, trace))
    if not result.shouldStop:
        print(result.testsRun, flush=True)
