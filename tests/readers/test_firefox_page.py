# SPDX-License-Identifier: Apache-2.0
"""A trace in the Firefox Profiler's own front-end: every call is a box of its stack chart, at its place and as long."""
import collections
import json

import pytest

import firefox_page
from test_html import settled
from viewer import traced

pytestmark = [pytest.mark.skipif(firefox_page.missing() is not None, reason=str(firefox_page.missing())),
              pytest.mark.needs_root]
PROGRAM = """
import threading
def leaf():
    pass
def branch(n):
    for _ in range(n):
        leaf()
def work():
    for n in range(20):
        branch(n)
thread = threading.Thread(target=work)
thread.start()
thread.join()
work()
"""
BOXES = """(() => {
    const info = selectors.selectedThread.getCallNodeInfo(getState());
    const name = node => profile.shared.stringArray[profile.shared.funcTable.name[info.funcForNode(node)]];
    return selectors.selectedThread.getStackTimingByDepth(getState()).map(
        row => Array.from(row.callNode, (node, i) => [name(node), row.start[i], row.end[i]]));
})()"""


@pytest.fixture(scope="module")
def made(pyebpf, any_python):
    """(capture, {tid: [event]} of ndjson)"""
    with traced(pyebpf, any_python, PROGRAM) as path:
        events = collections.defaultdict(list)
        for line in pyebpf.ok("convert", path, "-f", "ndjson", "-o", "-").stdout.splitlines():
            event = json.loads(line)
            if event["ev"] in ("call", "resume", "throw", "open", "return", "yield", "unwind"):
                events[event["tid"]].append(event)
        yield path, events


def spans(events):
    """Name, ns at which it began and ended of each stay in a frame, by depth, as the ndjson has them."""
    found, stack = collections.defaultdict(list), []
    for event in events:
        if event["ev"] in ("return", "yield", "unwind"):
            depth = len(stack) - 1
            found[depth].append((*stack.pop(), event["ts_ns"]))
        else:
            stack.append((event["func"], event["ts_ns"]))
    return found


def test_every_call_is_a_box(made, tmp_path):
    capture, events = made
    with firefox_page.shown(capture) as (page, _):
        start_ns = page.run("profile.meta.startTimeAsClockMonotonicNanosecondsSinceBoot")
        threads = page.run("profile.threads.map(t => t.tid)")
        assert sorted(threads) == sorted(events) and len(threads) == 2
        for index, tid in enumerate(threads):
            page.run("dispatch(actions.changeSelectedThreads(new Set([%d]))), 0" % index)
            boxes, wanted = page.run(BOXES), spans(events[tid])
            assert len([1 for row in boxes for name, _, _ in row if name == "leaf"]) == sum(range(20))
            for depth, row in wanted.items():
                assert [name for name, _, _ in boxes[depth]] == [name for name, _, _ in row]
                for (_, begin, end), (_, begin_ns, end_ns) in zip(boxes[depth], row):
                    # a call right after another one is 1 ns later
                    assert begin * 1e6 + start_ns == pytest.approx(begin_ns, abs=64, rel=0)
                    assert end * 1e6 + start_ns == pytest.approx(end_ns, abs=64, rel=0)
        for name in ("calltree", "flame-graph", "stack-chart", "marker-chart"):
            firefox_page.tab(page, name)
            settled(page, "firefox-" + name, tmp_path)
        # the one thing that has no reason to work: the page's cache for when there is no network
        assert not [noise for noise in page.noises if noise.startswith("threw") and "ServiceWorker" not in noise]
