# SPDX-License-Identifier: Apache-2.0
"""pstats_ticks.py FILE: runs the program of pstats_program.py under a cProfile whose clock goes on by a known step at
each event, and again under a hook that notes the events. So what cProfile says of these very times is in FILE, and the
events with their times are printed: [call or not, file, first line, name, microseconds]."""
import cProfile
import itertools
import json
import sys

import pstats_program


def clock():
    """No two times between events are likely to be alike. No Python code: some cProfiles would take it for the
    program's."""
    step, steps = 1, []
    for _ in range(100000):
        step = step * 75 % 65537
        steps.append(step)
    return itertools.accumulate(steps).__next__


def main():
    profile = cProfile.Profile(clock(), 1e-6, builtins=False)
    profile.runcall(pstats_program.main)
    profile.dump_stats(sys.argv[1])
    now, events = clock(), []

    def hook(frame, event, _):
        if event in ("call", "return"):
            code = frame.f_code
            events.append([event == "call", code.co_filename, code.co_firstlineno, code.co_name, now()])

    sys.setprofile(hook)
    pstats_program.main()
    sys.setprofile(None)
    json.dump(events, sys.stdout)


main()
