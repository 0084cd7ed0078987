"""usage: stdlib_tests.py FLAG: prints its pid, then runs a part of the standard library's own tests again and again, until FLAG
exists. After each whole run it prints how many tests there were. Exit 1 at the first that fails."""
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


print(os.getpid(), flush=True)
while not os.path.exists(sys.argv[1]):
    result = Result()
    unittest.defaultTestLoader.loadTestsFromNames(MODULES).run(result)
    for test, trace in result.failures + result.errors:
        sys.exit("%s\n%s" % (test, trace))
    if not result.shouldStop:
        print(result.testsRun, flush=True)
