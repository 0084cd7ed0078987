# SPDX-License-Identifier: Apache-2.0
"""Three functions that compute for different times, and how much CPU time each of them took, as the thread's clock says."""
import json
import sys
import time

CLOCK = time.CLOCK_THREAD_CPUTIME_ID
spent = {"half": 0.0, "third": 0.0, "fifth": 0.0}


def burn(n):
    x = 0
    for i in range(n):
        x += i & 1023


def half():
    burn(50000)


def third():
    burn(30000)


def fifth():
    burn(20000)


end = time.clock_gettime(CLOCK) + float(sys.argv[1])
while time.clock_gettime(CLOCK) < end:
    for function in (half, third, fifth):
        begin = time.clock_gettime(CLOCK)
        function()
        spent[function.__name__] += time.clock_gettime(CLOCK) - begin
print(json.dumps(spent))
