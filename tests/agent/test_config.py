# SPDX-License-Identifier: Apache-2.0
"""Settings of the agent: file, environment, options; read again at SIGHUP."""
import json
import os
import pathlib
import re
import signal
import subprocess

import pytest

import lib

RULES = """
label: {zone: %s, rack: "7"}
exclude: [agent_config_other, nothing*]
relabel_configs:
  - source_labels: [service_name, __meta_process_pid]
    regex: agent_config_(.*);[0-9]+
    target_label: part
  - regex: executable
    action: labeldrop
"""


def check(*args, **env):
    return subprocess.run([lib.BINARY, "agent", "--check-config", *map(str, args)], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, encoding="utf-8", check=False, timeout=60, env={**os.environ, **env})


def write(path, text):
    path.write_text(text)
    path.chmod(0o600)
    return path


def test_good(tmp_path):
    file = write(tmp_path / "agent.yaml", "window: 10s\nmax_size: 1G\nquiet: true\n" + RULES % "a")
    done = check("--config", file)
    assert (done.returncode, done.stdout) == (0, "%s: the settings are good\n" % file), done.stderr
    assert check(PYEBPF_CONFIG=str(file)).stdout == done.stdout


@pytest.mark.parametrize("text, said", [
    ("window: 10s\nwindoww: 3\n", "line 2: windoww is no setting"),
    ("window: 10s\n\nrate: fast\n", "line 3: rate: want a number"),
    ("rate: [1, 2]\n", "line 1: rate wants one value"),
    ("quiet: maybe\n", "line 1: quiet: want true or false"),
    ("config: x\n", "line 1: config is no setting"),
    ("label:\n  zone: a\n  a-b: c\n", "line 3: a-b: no label can be called a-b"),
    ("window: 10s\nwindow: 20s\n", "line 2: window a second time, after line 1"),
    ("relabel_configs:\n  - regex: '('\n", "line 2: the expression: "),
    ("relabel_configs:\n  - target_label: a\n    regex: '(a{1,255}){1,255}'\n", "line 3: the expression: it is longer than 1024 characters"),
    ("\"\\e[31m\": 1\n", "line 1: \\x1b[31m is no setting"),
    ("rate: 19\r\nwindow: 5s\r\n", "line 2: window: 10s to 5m, whole seconds"),
    ("max_cpu: 0\n", "line 1: max_cpu: 1 to 100"),
    ("\nstore: ''\n", "line 2: store: want a folder"),
    ("label: {__name__: x}\n", "line 1: __name__: no label can be called __name__"),
])
def test_refused_with_the_line(tmp_path, text, said):
    done = check("--config", write(tmp_path / "agent.yaml", text))
    assert done.returncode == 2 and "agent.yaml: %s" % said in done.stderr, done.stderr


def test_option_before_environment_before_file(tmp_path):
    """Which one is in force is seen by which one is refused."""
    file = write(tmp_path / "agent.yaml", "rate: 2000\n")
    assert "line 1: rate: 1 to 1000" in check("--config", file).stderr
    assert check("--config", file, PYEBPF_RATE="19").returncode == 0
    assert "--rate: 1 to 1000" in check("--config", file, PYEBPF_RATE="3000").stderr
    assert check("--config", file, "--rate", "9", PYEBPF_RATE="3000").returncode == 0
    done = check(PYEBPF_LABEL="zone=a,a-b=c")
    assert done.returncode == 2 and "the variable PYEBPF_LABEL: no label can be called a-b" in done.stderr


def test_a_value_that_another_source_replaces(tmp_path):
    """What it has to be is looked at when all are read, and said of where it stands."""
    file = write(tmp_path / "agent.yaml", "window: 5s\n")
    assert check("--config", file, PYEBPF_WINDOW="20s").returncode == 0
    assert check("--config", file, "--window", "20s").returncode == 0
    assert check("--config", file, "--window", "6s").stderr.startswith("pyebpf agent: --window: 10s to 5m")
    write(file, "window: 20s\n")
    assert check("--config", file, "--window", "6s").stderr.startswith("pyebpf agent: --window: 10s to 5m")


def test_a_file_that_is_not_there(tmp_path):
    done = check("--config", tmp_path / "none.yaml")
    assert done.returncode == 2 and "none.yaml: cannot be read: No such file" in done.stderr


@lib.needs_root
def test_a_file_that_others_write(tmp_path):
    file = write(tmp_path / "agent.yaml", "rate: 19\n")
    file.chmod(0o666)
    done = check("--config", file)
    assert done.returncode == 2 and "can be written by others" in done.stderr
    file.chmod(0o600)
    os.chown(file, 65534, 65534)
    done = check("--config", file)
    assert done.returncode == 2 and "can be written by others" in done.stderr


def services(store, *args):
    done = subprocess.run([lib.BINARY, "fleet", "services", "--json", "--store", store, *args], stdout=subprocess.PIPE,
                          check=False, encoding="utf-8", timeout=60)
    return {r["service"] for r in json.loads(done.stdout)} if done.returncode == 0 else set()


def said(path, what):
    return re.search(what, path.read_text(), re.M)


@lib.needs_root
def test_rules_and_sighup(tmp_path):
    """Rules name services and leave some out; a bad file changes nothing, a good one counts from the next window on."""
    file, store, log, socket = write(tmp_path / "agent.yaml", RULES % "a"), tmp_path / "store", tmp_path / "log", tmp_path / "socket"
    programs = [tmp_path / ("agent_config_%s.py" % n) for n in ("one", "other")]
    for path in programs:
        path.write_text("while True: pass\n")
    with lib.started([*lib.any_python(), programs[0]]), lib.started([*lib.any_python(), programs[1]]), log.open("w") as out, \
         lib.started([lib.BINARY, "agent", "--config", file, "--store", store, "--window", "10s", "-r", "99", "--socket", socket,
                     "--listen", ""], stderr=out) as agent:
        lib.until(lambda: services(store), "a window", 60)
        write(file, "labell: x\n")
        agent.send_signal(signal.SIGHUP)
        lib.until(lambda: said(log, r"line 1: labell is no setting; the settings stay as they are$"), "a refusal")
        asked = subprocess.run([lib.BINARY, "agent", "status", "--config", file, "--socket", socket], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               check=False, encoding="utf-8", timeout=60)
        assert asked.stdout.startswith("state     running") and "labell is no setting" in asked.stderr
        # the window at hand goes on, into the store that there is: these are not the options'
        write(file, "max_cpu: 2\nwindow: 30s\nsinks:\n  - type: clickhouse\n    url: http://127.0.0.1:1\n" + RULES.replace("exclude", "include") % "b")
        agent.send_signal(signal.SIGHUP)
        lib.until(lambda: said(log, r"the settings were read again$"), "the new settings")
        assert said(log, r"a new sink takes a new start of the agent$")
        lib.until(lambda: services(store, "--query", '{zone="b"}'), "a window", 60)
        agent.send_signal(signal.SIGTERM)
        assert agent.wait(60) == 0
    assert "agent_config_one" in services(store, "--query", '{zone="a", part="one", rack="7", executable=""}')
    assert "agent_config_other" not in services(store, "--query", '{zone="a"}')
    assert services(store, "--query", '{zone="b"}') == {"agent_config_other"}
    assert services(store, "--query", '{executable!=""}') == set()
    assert {oct(f.stat().st_mode & 0o777) for f in pathlib.Path(store).iterdir()} == {"0o600"}


# A service that becomes another one by executing its program anew.
BECOMES = """import os, sys, time
end = time.monotonic() + float(sys.argv[1]) if len(sys.argv) > 1 else 0
while not end or not os.path.exists(sys.argv[2]): pass
os.execv(sys.executable, [sys.executable, sys.argv[2]])
"""


def status(socket):
    done = subprocess.run([lib.BINARY, "agent", "status", "--json", "--socket", socket], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          check=False, encoding="utf-8", timeout=60)
    return json.loads(done.stdout) if done.returncode == 0 else {}


@lib.needs_root
def test_what_is_left_out_is_not_sampled(tmp_path):
    """The kernel side counts the ticks of an excluded service and takes no stack, until the rules change or it executes another program."""
    file, store, socket = write(tmp_path / "agent.yaml", "exclude: [agent_left_out]\n"), tmp_path / "store", tmp_path / "socket"
    out, other = tmp_path / "agent_left_out.py", tmp_path / "agent_left_in.py"
    out.write_text(BECOMES)
    python = lib.any_python()

    def excluded():
        return status(socket).get("samples_excluded_total", 0)
    with lib.started([*python, out, "0.1", other]), \
         lib.started([lib.BINARY, "agent", "--config", file, "--store", store, "--any-window", "--window", "1s", "-r", "199", "--socket", socket, "--listen", "",
                      "--max-cpu", "50"], stderr=subprocess.DEVNULL) as agent:
        lib.until(lambda: excluded() > 50, "ticks", 60)
        first = status(socket)
        lib.until(lambda: status(socket)["windows_total"] >= first["windows_total"] + 2, "windows", 60)
        second = status(socket)
        assert second["samples_excluded_total"] > first["samples_excluded_total"]
        lib.until(lambda: status(socket)["windows_total"] >= second["windows_total"] + 1, "a window", 60)
        # those that were taken before it was known came in the first windows
        assert status(socket)["samples_unwanted_total"] == second["samples_unwanted_total"]
        assert "agent_left_out" not in services(store)
        other.write_text("while True: pass\n")
        lib.until(lambda: "agent_left_in" in services(store), "the other program's profile", 60)
        write(file, "exclude: [agent_left_in]\n")
        before = excluded()
        agent.send_signal(signal.SIGHUP)
        lib.until(lambda: excluded() > before, "ticks again", 60)
        write(file, "label: {round: two}\n")
        agent.send_signal(signal.SIGHUP)
        lib.until(lambda: "agent_left_in" in services(store, "--query", '{round="two"}'), "a profile again", 60)
