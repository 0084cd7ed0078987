# SPDX-License-Identifier: Apache-2.0
"""Completions for shells: those of the real bash, zsh and fish, and that they have what --help has."""
import os
import pty
import re
import select
import shutil
import subprocess
import time

import pytest

SHELLS = ("bash", "zsh", "fish")


@pytest.fixture(scope="module")
def scripts(pyebpf, tmp_path_factory):
    folder = tmp_path_factory.mktemp("completions")
    for shell in SHELLS:
        done = pyebpf("completions", shell)
        assert done.returncode == 0 and not done.stderr
        (folder / shell).write_text(done.stdout, "utf-8")
    return folder


@pytest.fixture(scope="module")
def helps(pyebpf):
    """{command: its options, long and short}"""
    commands = re.findall(r"^  (\w+) ", pyebpf("--help").stdout, re.M)
    rows = re.compile(r"^  (?:(-\w), |    )(--[\w-]+)", re.M)
    return {c: {o for row in rows.findall(pyebpf(c, "--help").stdout.split("\nExamples:")[0]) for o in row if o}
            for c in commands if c not in ("version", "help")}


def bash(scripts, *words):
    """What is offered for the last word."""
    code = 'source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _pyebpf; printf "%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "-c", code, scripts / "bash", *words], stdout=subprocess.PIPE, check=True,
                          encoding="utf-8", cwd=scripts)
    return set(done.stdout.split())


def fish(scripts, line):
    done = subprocess.run(["fish", "--no-config", "-c", 'source "$argv[1]"; complete -C "$argv[2]"', scripts / "fish",
                           line], stdout=subprocess.PIPE, check=True, encoding="utf-8", cwd=scripts,
                          env={**os.environ, "HOME": str(scripts)})
    return {row.split("\t")[0] for row in done.stdout.splitlines()}


def zsh(scripts, line, wanted):
    """What an interactive zsh shows after the line and a tab, until all @wanted are there."""
    pid, fd = pty.fork()
    if not pid:
        os.environ.update(HOME=str(scripts), ZDOTDIR=str(scripts), TERM="dumb")
        os.execvp("zsh", ["zsh", "-f", "-i"])
    seen, until = b"", time.monotonic() + 60
    os.write(fd, b"unsetopt prompt_cr prompt_sp; LISTMAX=1000; autoload -U compinit; compinit -u -D; source %s/zsh; "
             b"zstyle ':completion:*' list-packed no; print re''ady\n" % os.fsencode(scripts))
    typed = False
    try:
        while time.monotonic() < until and not (typed and all(w.encode() in seen for w in wanted)):
            if select.select([fd], [], [], 0.1)[0]:
                seen += os.read(fd, 65536)
            if not typed and b"\nready" in seen.replace(b"\r", b""):
                os.write(fd, line.encode() + b"\t")
                seen, typed = b"", True
    finally:
        os.close(fd)
        os.waitpid(pid, 0)
    return seen.decode("utf-8", "replace")


def test_bash(scripts, helps):
    assert {"convert", "completions"} <= bash(scripts, "pyebpf", "") >= set(helps)
    assert bash(scripts, "pyebpf", "conv") == {"convert"}
    for command, options in helps.items():
        if command != "completions":
            assert bash(scripts, "pyebpf", command, "-") == options, command
    assert bash(scripts, "pyebpf", "convert", "x", "-f", "ps") == {"pstats"}
    assert bash(scripts, "pyebpf", "completions", "z") == {"zsh"}
    assert "zsh" in bash(scripts, "pyebpf", "convert", "z")  # a file
    assert bash(scripts, "pyebpf", "trace", "-d", "") == set()


def test_fish(scripts, helps):
    assert set(helps) <= fish(scripts, "pyebpf ")
    for command, options in helps.items():
        if command != "completions":
            assert {o for o in options if o.startswith("--")} == \
                {o for o in fish(scripts, "pyebpf %s --" % command) if o.startswith("--")}, command
    assert {"pprof", "pstats"} == {w for w in fish(scripts, "pyebpf convert -f p") if w.startswith("p")}
    assert fish(scripts, "pyebpf completions z") == {"zsh"}


def test_zsh(scripts, helps):
    subprocess.run(["zsh", "-n", scripts / "zsh"], check=True)
    wanted = sorted(o for o in helps["merge"] if o.startswith("--"))
    shown = zsh(scripts, "pyebpf merge --", wanted)
    assert all(o in shown for o in wanted), shown
    assert "convert" in zsh(scripts, "pyebpf conv", ["convert"])


def test_zsh_has_every_option(scripts, helps):
    text = (scripts / "zsh").read_text("utf-8")
    for command, options in helps.items():
        if command == "completions":
            continue
        part = re.search(r"\n\t\t%s\)\n(.*?)\n\t\t\t;;" % command, text, re.S)[1]
        assert set(re.findall(r"'(--?[\w-]+)=?\[", part)) == options, command


def test_another_shell_is_refused(pyebpf):
    for args in (["tcsh"], [], ["bash", "zsh"]):
        done = pyebpf("completions", *args)
        assert done.returncode == 2 and "bash|zsh|fish" in done.stderr and not done.stdout


def test_the_shells_are_there():
    assert all(shutil.which(shell) for shell in SHELLS)
