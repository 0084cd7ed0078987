# SPDX-License-Identifier: Apache-2.0
"""`pyebpf diff`: what was changed by construction is a change, what only scatters is noise."""
import json
import os
import pathlib
import random
import re
import subprocess
from xml.etree import ElementTree

import pytest

import chrome
import hostile
from made import PYEBPF, Script

FUNCTIONS = ["main", "steady", "slower", "faster", "wild", "more", "other1", "other2", "other3"]


def run(*args, **kw):
    return subprocess.run([PYEBPF, "diff", *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                          **kw)


def diff(*args):
    r = run(*args, "--json", "-n", "0")
    assert r.returncode == 0 and not r.stderr, r.stderr
    return json.loads(r.stdout)


def rows(got):
    return {r["function"]: r for r in got["rows"]}


def capture(path, seed, rounds=400, scale=1.0, line=10, folder="/app", cost=None, extra=(), **mean):
    """A main that calls every function in each round, for a mean time with 10 % of scatter; `wild` scatters by 300 %, and
    one round in 50 is disturbed by a millisecond."""
    rand = random.Random(seed)
    s, now = Script(cost), 1000
    s.process(1, 77, "app")
    s.thread(1, 1, 77, "main")
    names = FUNCTIONS + list(extra)
    for number, name in enumerate(names, 1):
        s.func(number, 1, line * number, name, folder + "/x.py")
    s.call(1, now, 1)
    for _ in range(rounds):
        for number, name in enumerate(names[1:], 2):
            for _ in range(mean.get("more_calls", 1) if name == "more" else 1):
                now += 50
                s.call(1, now, number)
                ns = mean.get(name, 10000) * scale
                ns *= rand.uniform(0, 7) if name == "wild" else rand.uniform(0.9, 1.1)
                now += int(ns) + 1000000 * (rand.random() < 0.002)
                s.return_(1, now)
    s.return_(1, now + 50)
    return s.write(path)


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    return capture(tmp_path_factory.mktemp("diff") / "before", 1)


def changed(got):
    return {r["function"]: r["verdict"] for r in got["rows"] if r["verdict"] in ("changed", "new", "gone")}


@pytest.mark.parametrize("seed", range(2, 8))
def test_the_same_again_is_noise(first, tmp_path, seed):
    got = diff(first, capture(tmp_path / "x", seed))
    assert changed(got) == {}
    assert abs(got["shift"]) < 0.05 and got["shift_functions"] == 8 and 0.02 <= got["noise_share"] < 0.1
    out = run(first, tmp_path / "x").stdout.decode()
    assert "nothing changed by more than the noise" in out and "within the noise" in out


@pytest.mark.parametrize("seed", range(2, 5))
def test_what_was_changed_is_found(first, tmp_path, seed):
    after = capture(tmp_path / "x", seed, slower=13000, faster=6000, more_calls=2, line=17, folder="/app/v2")
    got = diff(first, after)
    # the files lie elsewhere and the lines are other ones: they are the same functions
    # 50 ns of main go with each call
    assert changed(got) == {"slower": "changed", "faster": "changed", "more": "changed", "main": "changed"}
    r = rows(got)
    assert r["slower"]["change_ns"] > 0 > r["faster"]["change_ns"]
    assert (r["more"]["before"]["calls"], r["more"]["after"]["calls"]) == (400, 800)
    assert r["slower"]["line"] == 3 * 17 and r["slower"]["file"] == "/app/v2/x.py"
    for row in got["rows"]:
        assert row["change_ns"] == row["after"]["self_ns"] - row["before"]["self_ns"]
        if row["verdict"] == "noise":
            assert abs(row["change_ns"]) <= row["noise_ns"]
    changes = [abs(r["change_ns"]) for r in got["rows"][:3]]
    assert changes == sorted(changes, reverse=True)


def test_it_says_what_stats_says(first, tmp_path):
    after = capture(tmp_path / "x", 9, slower=20000)
    got = diff(first, after)
    for side, path in (("before", first), ("after", after)):
        want = json.loads(subprocess.run([PYEBPF, "stats", path, "--json", "-n", "0"], stdout=subprocess.PIPE,
                                         check=True).stdout)
        assert {r["function"]: {k: r[k] for k in ("calls", "self_ns", "total_ns")} for r in want["rows"]} == {
            name: r[side] for name, r in rows(got).items()}
        assert {k: v for k, v in want.items() if k not in ("by", "row_count", "rows")} == got[side]


def test_new_and_gone(first, tmp_path):
    after = capture(tmp_path / "x", 3, extra=["added"])
    got = diff(first, after)
    assert changed(got) == {"added": "new", "main": "changed"} and rows(got)["added"]["before"] == {"calls": 0, "self_ns": 0, "total_ns": 0}
    assert changed(diff(after, first)) == {"added": "gone", "main": "changed"}
    assert re.search(r"^\+ .* new +0 +400  added \(/app/x.py:100\)$", run(first, after).stdout.decode(), re.M)


def test_what_ran_too_shortly_is_not_known(first, tmp_path):
    got = diff(first, capture(tmp_path / "x", 3, rounds=1))
    assert {r["verdict"] for r in got["rows"]} == {"unknown"} and all(r["noise_ns"] is None for r in got["rows"])
    assert got["shift_functions"] == 0
    assert "too few functions to tell" in run(first, tmp_path / "x").stdout.decode()


def test_a_slower_machine_is_told(first, tmp_path):
    """All takes a third more: no function stands out, and the head says so."""
    got = diff(first, capture(tmp_path / "x", 5, scale=1.33))
    assert 0.25 < got["shift"] < 0.41 and changed(got) == {}
    assert re.search(r"^machine   a call takes \+3\d\.\d % \(median of 8 functions\)", run(first, tmp_path / "x").stdout.decode(),
                     re.M)


def test_the_cost_is_no_change(tmp_path):
    """Of two runs that tell apart only in what the profiler costs by 10 %; what is lost of short functions is within that."""
    a = capture(tmp_path / "a", 1, cost=(0, 1000, 1000, 0), steady=2500)
    b = capture(tmp_path / "b", 2, cost=(0, 1100, 1100, 0), steady=2500)
    assert "steady" not in changed(diff(a, b))
    assert rows(diff(a, b, "--raw"))["steady"]["before"]["self_ns"] > rows(diff(a, b))["steady"]["before"]["self_ns"]


def test_rows_and_refusals(first):
    r = run(first, first, "-n", "2")
    assert r.returncode == 0 and re.search(r"^and 7 more$", r.stdout.decode(), re.M)
    assert len(json.loads(run(first, first, "-n", "2", "--json").stdout)["rows"]) == 2
    for args, what in (([first], b"want two captures"), ([first] * 3, b"want two captures"),
                       ([first, "/no/such"], b"cannot read /no/such"), (["/dev/null", first], b"the file is empty")):
        r = run(*args)
        assert r.returncode == 2 and what in r.stderr and not r.stdout
    with open("/dev/full", "wb") as full:
        r = subprocess.run([PYEBPF, "diff", first, first], stdout=full, stderr=subprocess.PIPE, check=False)
    assert (r.returncode, r.stderr) == (6, b"pyebpf diff: cannot write standard output: No space left on device\n")


def test_names_are_escaped(tmp_path):
    s = Script()
    s.process(1, 77, "app")
    s.thread(1, 1, 77, "main")
    s.func(1, 1, 1, "a\x1b[31m\u202e\n", "/x\x07.py")
    s.call(1, 1000, 1)
    s.return_(1, 2000)
    path = s.write(tmp_path / "x")
    out = run(path, path).stdout.decode()
    assert r"a\x1b[31m\u202e\x0a (/x\x07.py:1)" in out and not re.search("[\x00-\x09\x0b-\x1f\u202e]", out)
    assert rows(diff(path, path)).keys() == {"a\x1b[31m\u202e\n"}


PROGRAM = """
import sys
def rest(n):
    return sum(range(n))
def listed(n):
    return [i for i in range(n) if i % 3]
def joined(n):
    return "".join([str(i) for i in range(n)])
def mapped(n):
    return {i: str(i) for i in range(n)}
def counted(n):
    t = 0
    for i in range(n * int(sys.argv[1])):
        t += i
    return t
for _ in range(1000):
    rest(2000), listed(300), joined(200), mapped(200), counted(400)
"""


def test_a_program_with_one_function_made_slower(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("needs root")
    (tmp_path / "prog.py").write_text(PROGRAM)
    paths = []
    for factor in ("1", "40"):  # much more than what others take from it on a busy machine
        paths.append(tmp_path / (factor + ".pyebpf"))
        subprocess.run([PYEBPF, "trace", "-q", "-o", paths[-1], "--", "/usr/bin/python3", "-I", "-S", tmp_path / "prog.py",
                        factor], check=True)
    got = rows(diff(*paths))["counted"]
    assert (got["verdict"], got["before"]["calls"], got["after"]["calls"]) == ("changed", 1000, 1000)
    assert got["after"]["self_ns"] > 3 * got["before"]["self_ns"]


# --- as a flame graph ---

SVG = "{http://www.w3.org/2000/svg}"


def boxes(path):
    """{name: (class, row, ns, tooltip)}; a name that comes twice is an error, but for the first three rows."""
    found = {}
    for g in ElementTree.parse(path).iter(SVG + "g"):
        classes = g.get("class").split()
        if classes[0] != "b" or int(g.get("data-r")) < 3:
            continue
        name, *rest = g.find(SVG + "title").text.split("\n")
        name = name.split(" (")[0]
        assert name not in found
        found[name] = classes[1], int(g.get("data-r")), int(g.get("data-n")), rest
    return found


def test_more_is_red_and_less_is_blue(first, tmp_path):
    after = capture(tmp_path / "after.pyebpf", 2, line=20, folder="/elsewhere", slower=20000, faster=4000,
                    extra=["brand_new"])
    out = tmp_path / "x.svg"
    done = run(first, after, "-o", out)
    assert done.returncode == 0 and not done.stdout and b"wrote" in done.stderr
    got = boxes(out)
    table = rows(diff(first, after))
    assert re.fullmatch("more[34]", got["slower"][0]) and got["brand_new"][0].startswith("more")
    assert re.fullmatch("less[234]", got["faster"][0])
    for name, (colour, _, ns, told) in got.items():
        sides = [(table[name][side] or {"self_ns": 0, "total_ns": 0}) for side in ("before", "after")]
        if name != "main":
            assert ns == max(side["self_ns"] for side in sides), name
        assert (colour == "same") == (table[name]["verdict"] == "noise") or table[name]["verdict"] == "changed", name
        assert told[0].startswith("total: ") and told[1].startswith("self: ")
    # a box is not narrower than what lies in it
    assert got["main"][2] >= sum(ns for name, (_, _, ns, _) in got.items() if name != "main")
    assert got["main"][1] == 3 and all(row == 4 for name, (_, row, _, _) in got.items() if name != "main")


def test_what_is_gone_is_drawn(first, tmp_path):
    after = capture(tmp_path / "after.pyebpf", 3, extra=["brand_new"])
    assert run(after, first, "-o", tmp_path / "x.svg").returncode == 0
    colour, _, ns, told = boxes(tmp_path / "x.svg")["brand_new"]
    assert colour.startswith("less") and ns > 0 and " 0 ns after" in told[1] and "-100.0 %" in told[1]


def test_equal_runs_are_grey(first, tmp_path):
    assert run(first, first, "-o", tmp_path / "x.svg").returncode == 0
    assert {colour for colour, *_ in boxes(tmp_path / "x.svg").values()} == {"same"}


def test_no_script_of_a_name_is_in_the_picture(tmp_path):
    s = Script()
    s.process(1, 7, hostile.NAMES[0])
    s.thread(1, 1, 7, hostile.NAMES[1])
    for i, name in enumerate(hostile.NAMES, 1):
        s.func(i, 1, i, name, name)
        s.call(1, 1000 * i, i)
        s.return_(1, 1000 * i + 500)
    path = s.write(tmp_path / "x.pyebpf")
    assert run(path, path, "-o", tmp_path / "x.svg").returncode == 0
    tree = ElementTree.parse(tmp_path / "x.svg")
    assert len(list(tree.iter(SVG + "script"))) == 1
    assert {e.tag for e in tree.iter()} == {SVG + t for t in ("svg", "title", "style", "rect", "text", "g", "script")}


@pytest.mark.parametrize("args, code, words", [
    (["-o", "x.html"], 2, b"ends in .svg"), (["-o", "x.svg", "--json"], 2, b"ask for one"),
    (["-o", "/nowhere/x.svg"], 6, b"/nowhere"),
])
def test_outputs_that_are_refused(first, args, code, words):
    done = run(first, first, *args)
    assert done.returncode == code and words in done.stderr and not done.stdout


def test_a_picture_that_exists_stays(first, tmp_path):
    (tmp_path / "x.svg").write_text("mine")
    assert run(first, first, "-o", tmp_path / "x.svg").returncode == 6
    assert (tmp_path / "x.svg").read_text() == "mine"
    assert run(first, first, "-o", tmp_path / "x.svg", "--force").returncode == 0


@pytest.mark.skipif(not chrome.PROGRAM, reason="no chromium (scripts/setup)")
def test_the_picture_in_a_browser(first, tmp_path):
    after = capture(tmp_path / "after.pyebpf", 4, slower=20000, faster=4000)
    assert run(first, after, "-o", tmp_path / "x.svg").returncode == 0
    with chrome.Browser(tmp_path) as program:
        page = program.open((tmp_path / "x.svg").as_uri())
        colour = "getComputedStyle([...document.querySelectorAll('g.b')].find(" \
            "g => g.textContent.startsWith('%s')).querySelector('rect')).fill"
        red, blue = (list(map(int, re.findall(r"\d+", page.run(colour % name)))) for name in ("slower", "faster"))
        assert red[0] > red[2] + 40 and blue[2] > blue[0] + 40
        folder = pathlib.Path(os.environ.get("PYEBPF_PICTURES", tmp_path))
        folder.mkdir(parents=True, exist_ok=True)
        page.picture(folder / "diff.png")
        assert not page.noises
