# SPDX-License-Identifier: Apache-2.0
"""The documents say what the program says. `python3 tests/lint/test_docs.py` rewrites the options of the
man pages from --help, where the tables of the program put them."""
import os
import pathlib
import re
import shlex
import subprocess

import pytest

import source

PYEBPF = pathlib.Path(os.environ.get("PYEBPF") or
                      pathlib.Path(os.environ.get("PYEBPF_BUILD", source.ROOT / "build"), "pyebpf"))
COMMANDS = ("agent", "fleet", "record", "top", "dump", "trace", "convert", "view", "merge", "diff", "stats", "detach", "list", "doctor")
DOCUMENTS = source.files("README.md", "docs/*.md", "CONTRIBUTING.md")


def test_the_map_of_the_inline_engine():
    """Each of its files has its place in the table."""
    told = (source.ROOT / "docs" / "inline.md").read_text(encoding="utf-8").partition("## Where it stands in the code")[2].partition("\n## ")[0]
    missing = [f.name for f in sorted((source.ROOT / "user" / "inline").glob("*.c")) if "`%s`" % f.name not in told]
    assert not missing


def said(*args):
    return subprocess.run([PYEBPF, *args], stdout=subprocess.PIPE, encoding="utf-8", check=True).stdout


def options(command):
    """[(left, text)] of --help: ("-p, --pid PID[,PID]", "trace these ..."), under ("Title", None)."""
    rows = []
    for line in said(command, "--help").splitlines():
        title = re.fullmatch(r"(\w[\w ]*):", line)
        option = re.match(r"  (?:-\w, |    )--\S+(?: \S+)?", line)
        if line.startswith("Usage") or line == "Examples:":
            rows = rows if line != "Examples:" else rows + [("end", None)]
        elif title:
            rows.append((title[1], None))
        elif rows and rows[-1] != ("end", None) and option:
            rows.append((option[0].strip(), line[option.end():].strip()))
        elif rows and rows[-1][1] is not None and line.strip():
            rows[-1] = rows[-1][0], (rows[-1][1] + " " + line.strip()).strip()
    return rows[:-1] if rows and rows[-1][0] == "end" else rows


def escaped(text):
    return re.sub(r"([\\_*`])", r"\\\1", text)


def manual(command):
    """The options as scdoc reads them."""
    out = ["# OPTIONS", ""]
    for left, text in options(command):
        if text is None:
            if left != "Options":
                out += ["## %s" % left, ""]
            continue
        words = left.split(" ")
        shown = [("*%s*," % w[:-1]) if w.endswith(",") else "*%s*" % w if w.startswith("-") else
                 "_%s_" % escaped(w) for w in words]
        out += [" ".join(shown), "\t" + escaped(text), ""]
    return "\n".join(out)


def page(command):
    return source.ROOT / "docs" / "man" / ("pyebpf-%s.1.scd" % command)


def with_options(text, command):
    return re.sub(r"^# OPTIONS\n.*?(?=^# )", lambda _: manual(command) + "\n", text, flags=re.M | re.S)


pytestmark = pytest.mark.skipif(not PYEBPF.exists(), reason="pyebpf is not built")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_manual_has_the_options_of_help(command):
    text = page(command).read_text("utf-8")
    assert text == with_options(text, command), "run python3 tests/lint/test_docs.py"


def test_every_command_has_a_manual():
    shown = re.findall(r"^  (\w+) ", said("--help"), re.M)
    assert set(shown) - {"completions", "version", "help"} == set(COMMANDS)
    text = source.text("docs/man/pyebpf.1.scd")
    for command in shown:
        assert re.search(r"^\*pyebpf[- ]%s\*" % command, text, re.M), command


def test_the_first_manual_names_each_thing_once():
    text = source.text("docs/man/pyebpf.1.scd")
    heads = re.findall(r"^\*[A-Z_]+\*(?:, \*[A-Z_]+\*)*$", text[text.index("# ENVIRONMENT"):], re.M)
    named = re.findall(r"[A-Z_]+", " ".join(heads))
    assert named and len(named) == len(set(named)), named
    others = text[text.index("# SEE ALSO"):]
    assert [c for c in COMMANDS if "*pyebpf-%s*(1)" % c not in others] == []


@pytest.mark.parametrize("command", ("", *COMMANDS))
def test_help_fits_a_terminal(command):
    for line in said(*[command] * bool(command), "--help").splitlines():
        assert len(line) <= 80, line


@pytest.mark.parametrize("command", (*COMMANDS, "completions"))
def test_help_has_three_examples(command):
    examples = said(command, "--help").split("\nExamples:\n")[1].splitlines()
    assert sum("pyebpf %s" % command in line for line in examples) >= 3, examples


def commands_in(text):
    """What the documents tell to type: words from pyebpf to the end of the command. kubectl's plugin has options of its own."""
    for line in re.findall(r"(?:^|[`$ ])(?<!kubectl )(pyebpf (?:%s)\b[^`|\n]*)" % "|".join(COMMANDS), text, re.M):
        line = line.split(" -- ")[0].split("  #")[0].split("…")[0]
        try:
            yield shlex.split(line, comments=True)
        except ValueError:
            yield line.split()


@pytest.mark.parametrize("path", DOCUMENTS, ids=str)
def test_options_that_are_told_exist(path):
    known = {c: set(re.findall(r"(?<![\w-])--?\w[\w-]*", said(c, "--help"))) for c in COMMANDS}
    for words in commands_in(source.text(path)):
        for word in words[2:]:
            if re.match(r"--?[a-z]", word):
                assert word.split("=")[0] in known[words[1]], " ".join(words)


@pytest.mark.parametrize("path", DOCUMENTS, ids=str)
def test_links_lead_somewhere(path):
    folder = (source.ROOT / path).parent
    for target in re.findall(r"\]\(([^)#\s]+)", source.text(path)):
        if "://" not in target:
            assert (folder / target).exists(), target


# That the target is left alone: true of the default engines.
HARMLESS = re.compile(r"\bnever (?:write|stop)|\bno ptrace|\bneither (?:be )?(?:stop|write)|(?<!may )\bnot (?:be )?stop(?:ped|s)?\b|"
                      r"\bnor (?:writes?|written)\b|\bnothing (?:is )?written(?! to the disk)|\bwrites? nothing into|"
                      r"\bwithout (?:stopping|ptrace)|\b(?:leaves? nothing|nothing (?:\w+,? )*(?:left|stays)) behind", re.I)
SAYS_SO = re.compile(r"\binline\b")


def paragraphs(text):
    """An item of a list and a row of a table are some, too; a figure belongs to what stands right above it."""
    return [" ".join(p.split()) for p in re.split(r"\n\s*\n|\n(?=[|#] ?|[-*] |\d+\. )", text)]


def unqualified(text):
    return [p for p in paragraphs(text) if HARMLESS.search(p) and not SAYS_SO.search(p)]


# inline.md is about that engine alone; the other commands' manuals are about commands that have it not.
@pytest.mark.parametrize("path", [p for p in DOCUMENTS + source.files("SECURITY.md", "docs/man/pyebpf.1.scd", "docs/man/pyebpf-trace.1.scd")
                                  if p.name != "inline.md"], ids=str)
def test_harmless_words_name_the_inline_engine(path):
    assert unqualified(source.text(path)) == []


def test_harmless_words_in_the_help_of_trace():
    help = said("trace", "--help").split("\nTargets:")[0]
    assert HARMLESS.search(" ".join(help.split())) and unqualified(help) == []


@pytest.mark.parametrize("text", ["It never writes to a target.\n\nNot so the inline engine.", "- Never stops it.\n- inline", "No ptrace.",
                                  "the process is neither stopped\nnor written to", "| x | not stopped |\n| inline | |"])
def test_harmless_words_are_found(text):
    assert len(unqualified(text)) == 1


def test_counters_are_in_the_documents():
    text = source.text("docs/abi.md")
    for name, number, meaning in re.findall(r'^PYE_COUNTER\((\w+), (\d+), "(.+)"\)$',
                                            source.text("bpf/abi/counters.def"), re.M):
        assert "| %s | `%s` | %s |" % (number, name, meaning) in text, name


def test_records_are_in_the_documents():
    text = source.text("docs/abi.md")
    for name, number in re.findall(r"^\tPYE_REC_(\w+) = (\d+),", source.text("bpf/abi/event.h"), re.M):
        assert re.search(r"^\| %s \| `%s` \|" % (number, name), text, re.M), name


def test_exit_codes_are_in_the_manual():
    text = source.text("docs/man/pyebpf.1.scd")
    codes = re.findall(r"return (\d);", source.text("user/base/err.c").split("err_exit_code")[1])
    for code in codes:
        assert "|[ *%s*" % code in text, code


if __name__ == "__main__":
    for name in COMMANDS:
        page(name).write_text(with_options(page(name).read_text("utf-8"), name), "utf-8")


def test_each_trouble_says_where_it_was_reported():
    """A row, or the sentence why there is none; 51 reports of other tools' users were gone through at first."""
    assert len(set(re.findall(r"[\w-]+#\d+", source.text("docs/troubles.md")))) >= 51


@pytest.mark.parametrize("document", ["reliability", "troubles"])
def test_tables_name_tests_that_are_there(document):
    """`test_x.py::test_y`, `test_z` of the same file, or `unit/test_x.c`; each row has one at least."""
    lines = source.text("docs/%s.md" % document).splitlines()
    rows = [line.split("|") for line, below in zip(lines, lines[1:] + [""]) if line.startswith("| ") and not below.startswith("|---")]
    assert len(rows) > 20
    for row in rows:
        names, file = re.findall(r"`([^`]+)`", row[3]), None
        assert names, row
        for name in names:
            if name.endswith(".c"):
                assert (source.ROOT / "tests" / name).exists(), name
                continue
            where, _, test = name.rpartition("::")
            file = next(source.ROOT.glob("tests/*/" + where)) if where else file
            assert re.search(r"^def %s\(" % test, file.read_text("utf-8"), re.M), name
