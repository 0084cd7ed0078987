# SPDX-License-Identifier: Apache-2.0
"""Memory of pyebpf by threads and open frames, and what must not grow with them. The figures of time are scripts/bench's."""
import sys

import pytest

import lib

sys.path.insert(0, str(lib.HERE.parents[1] / "bench"))
import growth  # noqa: E402 pylint: disable=wrong-import-position

pytestmark = lib.needs_root
THREAD_BYTES, FRAME_BYTES = 2048, 16
SHARED_BYTES = 1 << 20  # of all threads: blocks for events that are not written yet, what malloc keeps


@pytest.mark.parametrize("name", lib.pick("3.8", "3.12"))
def test_memory_of_threads_and_frames(name, tmp_path):
    def measure(threads, depth):
        got = growth.measure(lib.BINARY, lib.command(name), (1, threads, depth), 20000, str(tmp_path / "t.pyebpf"))
        assert got["lost"] == 0 and got["events"] >= 40000 + threads * depth
        return got

    few, many, deep = measure(10, 10), measure(600, 10), measure(50, 1000)
    for got in (many, deep):
        frames = got["threads"] * got["depth"]
        assert got["grown_bytes"] <= got["threads"] * THREAD_BYTES + frames * FRAME_BYTES + SHARED_BYTES, got
        # stacks are walked when a thread is seen first, not for its events
        assert got["counters"]["WALKS"] <= few["counters"]["WALKS"] + got["threads"]
    # in the capture an event is as small among many threads and on deep stacks
    beginning = {id(got): got["threads"] * (got["depth"] + 20) for got in (few, many, deep)}
    size = {id(got): got["capture_bytes"] / (got["events"] + beginning[id(got)]) for got in (few, many, deep)}
    assert size[id(many)] < 3 * size[id(few)] and size[id(deep)] < 3 * size[id(few)], size
