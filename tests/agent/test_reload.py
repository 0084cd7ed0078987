# SPDX-License-Identifier: Apache-2.0
"""Settings that are read again while a push is on its way, and such as only a new start can change: nothing is lost, nothing is sent twice, and
what takes a new start is said each time."""
import contextlib
import os
import re
import signal
import subprocess
import time

import double
import lib
from test_many_services import in_sink, in_store, sender_of
from test_service_names import services

pytestmark = lib.needs_root

FIXED = "a new sink, store, window takes a new start of the agent"


def settings(path, store, window, sinks, **others):
    lines = ["store: %s" % store, "window: %s" % window, "sinks:"]
    for name, url in sinks.items():
        lines += ["  - type: clickhouse", "    name: %s" % name, "    url: %s" % url, "    max_backoff: 1s"]
    path.write_text("\n".join(lines + ["%s: %s" % item for item in others.items()]) + "\n")


class Slow(double.Double):
    """Thinks about each push for a while, of many at the same time."""

    def give(self, handler, request, answer):
        time.sleep(0.7)
        super().give(handler, request, answer)


@contextlib.contextmanager
def agent(folder, file):
    path, log = folder / "agent_reload.py", folder / "log"
    path.write_text("while True:\n    sum(range(10000))\n")
    with lib.started([*lib.any_python(), path]), log.open("w") as out, \
         lib.started([lib.BINARY, "agent", "--config", file, "--any-window", "-r", "49", "--max-cpu", "20", "--socket", "", "--listen", "",
                      "--kill-switch", "", "--burst-file", ""], stderr=out) as process:
        process.said = log.read_text
        yield process
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, log.read_text()


def ours(store):
    return {f.name for f in store.glob("*-agent_reload-*.pb.gz")}


def read_again(process):
    before = process.said().count("the settings were read again")
    process.send_signal(signal.SIGHUP)
    lib.until(lambda: process.said().count("the settings were read again") > before, "the settings", 60)


def once(*servers):
    """What these have taken together, each profile once."""
    came, times = in_sink([request for server in servers for request in server.taken])
    assert set(times.values()) <= {1}, [key for key, n in times.items() if n > 1]
    return came


def test_while_a_push_is_on_its_way(tmp_path):
    """And, when the sender is killed after that, it begins anew in the store that there is: not in one of settings that are gone."""
    file, store, other = tmp_path / "agent.yaml", tmp_path / "store", tmp_path / "other"
    with Slow() as server, Slow() as second:
        settings(file, store, "1s", {"one": server.url})
        with agent(tmp_path, file) as process:
            lib.until(lambda: once(server), "a window", 60)
            for number in range(4):
                lib.until(lambda: len(server.requests) > len(server.taken), "a push on its way", 60)
                settings(file, store, "1s", {"one": server.url}, label="{round: r%d}" % number)
                read_again(process)
            assert "takes a new start" not in process.said()
            # twice, since nothing of it may be in force after the first time; then as it was
            settings(file, other, "2s", {"one": second.url, "more": second.url}, label="{round: fixed}")
            for number in range(2):
                lib.until(lambda: len(server.requests) > len(server.taken), "a push on its way", 60)
                read_again(process)
                assert process.said().count(FIXED) == number + 1, process.said()
            held = ours(store)
            lib.until(lambda: len({name for name in ours(store) - held if "-1s-" in name}) > 1, "windows", 60)
            settings(file, store, "1s", {"one": server.url}, label="{round: last}")
            read_again(process)
            assert process.said().count("takes a new start") == 2
            lib.until(lambda: services(store, "--query", '{round="last"}'), "a window", 60)
            once(server)
            sender = sender_of(process.pid)
            os.kill(sender, signal.SIGKILL)
            lib.until(lambda: sender_of(process.pid) not in (None, sender), "another sender", 60)
            before = len(server.taken)
            lib.until(lambda: len(server.taken) > before + 2, "its pushes", 60)
        assert not other.exists() and not second.requests
        assert in_store(store)[0] == in_sink(server.taken)[0]
        assert services(store, "--query", '{round="fixed"}')


def test_sinks_of_the_next_start(tmp_path):
    """One that has another address is the same by its name, and is sent what it was not; one that is new is sent everything, one that is gone
    keeps nobody waiting."""
    file, store = tmp_path / "agent.yaml", tmp_path / "store"
    with Slow() as server, Slow() as moved, Slow() as new, double.Double(lambda request: 503) as gone:
        settings(file, store, "1s", {"one": server.url, "gone": gone.url})
        with agent(tmp_path, file) as process:
            lib.until(lambda: len(server.taken) > 2 and gone.requests, "pushes", 60)
            settings(file, store, "1s", {"one": moved.url, "new": new.url})
            read_again(process)
            before = len(server.taken)
            lib.until(lambda: len(server.taken) > before + 1, "more of them", 60)
            assert not moved.requests and not new.requests
        # what is answered at the very end is taken
        with agent(tmp_path, file) as process:
            lib.until(lambda: len(moved.taken) > 1 and len(new.taken) > 1, "pushes to the others", 60)
        held = in_store(store)[0]
        assert once(server, moved) == held and once(new) == held
        assert re.search(r"sink one: ", process.said()) is None
