# SPDX-License-Identifier: Apache-2.0
"""Programs written for what the random ones found, or cannot make: exact against the interpreter's own hooks.

What these do not see, or change, so that a program with it differs:
- To 3.10 sys.setprofile() writes a frame's variables into a dict, which keeps what `del` drops until the next event; what then
  ends does so inside the hook, unseen.
- To 3.11 a signal's handler may run inside the hook, unseen.
- 3.11: a generator whose delegate answers a throw() by returning goes on without a `call` event; its `return` is seen.
- A hook is a frame more: programs that reach the limit of recursion do so one call earlier, in the hook.
"""
import pytest

import lib

pytestmark = lib.needs_root


@pytest.mark.parametrize("name, program", [(n, p.name) for n in lib.families() for p in lib.exact_programs(n, 0)])
def test_exact(name, program, tmp_path):
    if lib.family(name) == "3.11" and program == "async_ends.py":
        # A coroutine that goes on because what it awaits was thrown into and has returned does not pass RESUME there: the hooks
        # report its next return, and no call before it. A trace that nests right must have one.
        pytest.skip("the hooks of 3.11 miss a call")
    prog = lib.PROGRAMS / "exact" / program
    assert lib.exactly("auto", lib.command(name), prog, tmp_path) > 10


@pytest.mark.parametrize("engine", ["auto", "inline"])
@pytest.mark.parametrize("name", lib.every())
def test_return_kinds(name, engine, tmp_path):
    """What returns is not shown as ended by an exception, whichever way the interpreter's code goes for its value."""
    seen, _ = lib.run_program(name, "return_kinds.py", tmp_path, options=("--engine", engine))
    ends = {(e["name"], e["ev"]) for e in seen.whole().of(lib.PROGRAMS / "return_kinds.py") if e["ev"] in ("return", "unwind")}
    raised = {e for e in ends if e[1] == "unwind"}
    assert raised == {("raises", "unwind"), ("passes", "unwind")} and len(ends) == 23, ends
