# SPDX-License-Identifier: Apache-2.0
"""Random Python programs, the same ones for the same seed, that a trace must show exactly.

usage: progen.py SEED[-SEED] [3.N] > program.py

A program is a heap of functions, generators, coroutines and classes that call each other, raise, catch, throw into,
close, drop, suspend and resume in random ways. What makes it fit for a comparison of two runs:
 - it is deterministic: no clocks, no addresses, no hash of a string, no cyclic garbage collection; threads share no
   state that changes what they call;
 - it ends: a function calls only those made before it, itself with a smaller number, and its cost (events at most)
   is known and bounded;
 - it exits 0 whatever it raised.
Several seeds go into one file, each with its prefix, so that one start of an interpreter tests many.
"""
import random
import sys

COST_MAX = 400      # events of one call of any function made here
PROGRAM_MAX = 6000  # events of one seed's program


class Callee:
    """Something that can be called: an expression with {x} for an int argument, worth an int."""

    def __init__(self, expr, cost):
        self.expr, self.cost = expr, cost


class Program:
    def __init__(self, seed, version):
        self.rng = random.Random(seed)
        self.version = version
        self.p = "p%d" % seed
        self.lines = []
        self.indent = 0
        self.n = 0
        self.calls, self.gens, self.coros, self.agens, self.ctxs = [], [], [], [], []
        self.classes = []
        # To 3.10 a call out of a function copies its locals to a dictionary when sys.setprofile watches: what the
        # function drops lives on there, and ends where the hook does not see it. Nothing may hang on such a drop.
        self.hooks_hold_locals = version < (3, 11)

    # --- text ---

    def emit(self, text, *args):
        self.lines.append("    " * self.indent + (text % args if args else text))

    def name(self, kind):
        self.n += 1
        return "%s_%s%d" % (self.p, kind, self.n)

    def chance(self, percent):
        return self.rng.randrange(100) < percent

    def pick(self, *options):
        return self.rng.choice(options)

    # --- expressions: (text, cost) ---

    def number(self):
        return self.pick("x", "t", "x + 1", "t % 7", "3", "x * 2 % 11", "-x")

    def call(self, room):
        """A call of something made before that costs at most `room`; a plain number if there is none."""
        fit = [c for c in self.calls if c.cost <= room]
        if not fit:
            return self.number(), 0
        callee = self.rng.choice(fit[-12:] if self.chance(70) else fit)
        return callee.expr.replace("{x}", self.number()), callee.cost

    def via_c(self, room):
        """A call that comes out of C code."""
        fit = [c for c in self.calls if c.cost * 3 + 6 <= room]
        if not fit:
            return self.call(room)
        c = self.rng.choice(fit)
        f = "lambda x: " + c.expr.replace("{x}", "x")
        one = c.cost + 2
        text, times = self.pick(
            ("sum(map(%s, range(3)))" % f, 3),
            ("len(list(filter(%s, (1, 2, 3))))" % f, 3),
            ("max((1, 2, 3), key=%s)" % f, 3),
            ("sorted([3, 1, 2], key=%s)[0]" % f, 3),
            ("functools.reduce(lambda a, x: a + x, map(%s, (1, 2)))" % f, 3),
            ("functools.partial(%s, x)()" % f.replace("lambda x", "lambda x, *a"), 1),
            ("len(re.sub('a', lambda m: str((%s)(1)), 'aab'))" % f, 3),
            ("next(iter(map(%s, (x,))))" % f, 1),
            ("len({k: (%s)(k) for k in (1, 2)})" % f, 3),
            ("sum((%s)(i) for i in range(2))" % f, 6),
            ("sum([(%s)(i) for i in range(2)])" % f, 4),
            ("operator.methodcaller('__call__', 1)(%s)" % f, 1),
            ("int(eval('f(1)', {'f': %s}))" % f, 1),
            ("len([*zip(map(%s, (1, 2)), 'ab')])" % f, 2),
            ("dict.fromkeys(map(%s, (1, 2))).__len__()" % f, 2),
        )
        return text, one * times + 2

    def expr(self, room):
        kind = self.rng.randrange(10)
        if kind < 6:
            return self.call(room)
        if kind < 8:
            return self.via_c(room)
        if self.gens and room > 60:
            g, cost = self.rng.choice(self.gens)
            if cost <= room:
                text = self.pick("sum(%s(%s))", "len(list(%s(%s)))", "next(%s(%s), 5)", "sum(1 for _ in %s(%s))",
                                 "max(%s(%s), default=0)", "len([v for v in %s(%s) if v])",
                                 "sum(itertools.islice(%s(%s), 2))", "int(2 in %s(%s))", "len({*%s(%s)})")
                return text % (g, self.number()), cost + 30
        return self.number(), 0

    # --- statements; each returns its cost ---

    def block(self, room, depth, ctx):
        """Statements in the body of something; `ctx`: what may stand there (gen, coro, agen, loop)."""
        self.indent += 1
        spent = 0
        for _ in range(self.rng.randrange(1, 4)):
            spent += self.statement(room - spent, depth, ctx)
        self.indent -= 1
        return spent

    def statement(self, room, depth, ctx):
        kinds = [self.s_add] * 6 + [self.s_if, self.s_raise]
        if depth:
            kinds += [self.s_for, self.s_try, self.s_try, self.s_try, self.s_while, self.s_closure, self.s_lambda,
                      self.s_if, self.s_with, self.s_frames, self.s_handle, self.s_handle, self.s_fresh, self.s_drop]
        if "loop" in ctx:
            kinds += [self.s_leave_loop]
        if "gen" in ctx:
            kinds += [self.s_yield] * 6 + [self.s_from] * 3
        if "coro" in ctx:
            kinds += [self.s_await] * 6
        if "agen" in ctx:
            kinds += [self.s_yield_plain] * 5 + [self.s_await] * 3
        if "coro" in ctx or "agen" in ctx:
            kinds += [self.s_async_for, self.s_async_with, self.s_async_comp]
        if depth and self.version >= (3, 10):
            kinds += [self.s_match]
        if depth and self.version >= (3, 11):
            kinds += [self.s_star]
        if depth and self.version >= (3, 12):
            kinds += [self.s_generic]
        return self.rng.choice(kinds)(room, depth, ctx)

    def s_add(self, room, depth, ctx):
        text, cost = self.expr(room)
        self.emit("t = (t + %s) %% 1000003" % text)
        return cost

    def condition(self):
        k = self.rng.randrange(2, 5)
        return "t %% %d %s %d" % (k, self.pick("==", "!=", "<"), self.rng.randrange(k))

    def s_if(self, room, depth, ctx):
        self.emit("if %s:" % self.condition())
        cost = self.block(room // 2, max(depth - 1, 0), ctx)
        if self.chance(50):
            self.emit("else:")
            cost += self.block(room // 2, max(depth - 1, 0), ctx)
        return cost

    def s_raise(self, room, depth, ctx):
        error = self.pick("ValueError(t)", "KeyError(t)", "E0(t)", "E1(t)", "ZeroDivisionError()", "E0")
        self.emit("if %s:" % self.condition())
        if "gen" in ctx and self.chance(15):
            error = "StopIteration(t)"
        self.emit("    raise %s%s" % (error, self.pick("", "", "", " from None", " from OSError(t)")))
        return 0

    def s_for(self, room, depth, ctx):
        times = self.rng.randrange(1, 4)
        self.emit("for i%d in range(%d):" % (depth, times))
        cost = self.block(room // times, depth - 1, ctx | {"loop"}) * times
        if self.chance(20):
            self.emit("else:")
            cost += self.block(room - cost, 0, ctx)
        return cost

    def s_while(self, room, depth, ctx):
        n = "n%d" % depth
        self.emit("%s = 0" % n)
        self.emit("while %s < 2:" % n)
        self.emit("    %s += 1" % n)
        return self.block(room // 2, depth - 1, ctx | {"loop"}) * 2

    def s_leave_loop(self, room, depth, ctx):
        self.emit("if %s:" % self.condition())
        self.emit("    " + self.pick("break", "continue"))
        return 0

    def s_try(self, room, depth, ctx):
        """Costs are summed: each part can run."""
        part = room // 4
        # leaving a loop in `finally` was forbidden before 3.8 and warns from 3.14 on
        calm = ctx - {"loop"}
        self.emit("try:")
        cost = self.block(part, depth - 1, ctx)
        caught = self.chance(85)
        if caught:
            for what in self.rng.sample(["ValueError", "KeyError", "E1", "(E0, ArithmeticError)", "RuntimeError"],
                                        self.rng.randrange(1, 4)):
                self.emit("except %s%s:" % (what, self.pick("", " as e")))
                cost += self.block(part // 2, depth - 1, ctx)
                if self.chance(15):
                    self.emit("    raise")
            if self.chance(25):
                self.emit("except Exception:")
                cost += self.block(part // 2, depth - 1, ctx)
            if self.chance(20):
                self.emit("else:")
                cost += self.block(part // 2, depth - 1, ctx)
        if not caught or self.chance(25):
            self.emit("finally:")
            cost += self.block(part // 2, depth - 1, calm)
        return cost

    def s_with(self, room, depth, ctx):
        if not self.ctxs:
            return self.s_try(room, depth, ctx)
        c, cost = self.rng.choice(self.ctxs)
        self.emit("with %s(t)%s:", c, self.pick("", " as w"))
        return cost + self.block(room - cost, depth - 1, ctx)

    def s_lambda(self, room, depth, ctx):
        text, cost = self.call(room - 2)
        self.emit("t += (lambda x, t=t: %s)(t)" % text)
        return cost + 2

    def s_closure(self, room, depth, ctx):
        f = "inner%d" % self.rng.randrange(3)
        kind = self.rng.randrange(3)
        if "coro" in ctx or "agen" in ctx or "gen" in ctx:
            kind = 0
        self.emit("def %s(x, t=1):" % f)
        self.indent += 1
        if kind == 1:
            self.emit("nonlocal_x = [x]")
        self.indent -= 1
        cost = self.block(room // 3, depth - 1, set()) + 2
        self.emit("    return t")
        if kind == 2:
            self.emit("t += sum(map(%s, (1, 2)))" % f)
            return cost * 2
        self.emit("t += %s(t)" % f)
        return cost

    def s_frames(self, room, depth, ctx):
        """A frame that outlives its call."""
        if self.hooks_hold_locals:
            self.emit("t += len(locals())")
            return 0
        self.emit(self.pick("KEEP().append(sys._getframe())", "KEEP().append(sys._getframe().f_back)",
                            "del KEEP()[:]", "t += len(locals())", "t += sys._getframe().f_lineno * 0",
                            "KEEP().append(sys.exc_info())"))
        return 6  # KEEP

    def s_fresh(self, room, depth, ctx):
        """A code object that lives for one call, under this file's name."""
        n = self.name("fresh")
        text, cost = self.call(room - 4)
        kind = self.rng.randrange(3)
        if kind == 0:
            source = "%s = lambda x, t: %s" % (n, text)
        elif kind == 1:
            source = "def %s(x, t):\n    return %s" % (n, text)
        else:
            source = "\n" * self.rng.randrange(200) + "def %s(x, t):\n    return (lambda: %s)()" % (n, text)
        self.emit("t += fresh(%r, %r)(x, t)" % (source, n))
        return cost + 20

    def s_drop(self, room, depth, ctx):
        """A generator started and dropped, or never started."""
        if not self.gens:
            return self.s_add(room, depth, ctx)
        g, cost = self.rng.choice(self.gens)
        self.emit("g = %s(%s)" % (g, self.number()))
        if self.hooks_hold_locals:
            self.emit("t += closed(g)")
            return cost
        if self.chance(70):
            self.emit("t += next(g, 3)")
        self.emit(self.pick("g = None", "del g", "g.close()", "g = None"))
        return cost

    def s_handle(self, room, depth, ctx):
        """A generator driven by hand: send, throw, close, in any order and state."""
        if not self.gens:
            return self.s_add(room, depth, ctx)
        g, cost = self.rng.choice(self.gens)
        self.emit("g = %s(%s)" % (g, self.number()))
        if self.hooks_hold_locals:
            self.emit("try:")
            self.indent += 1
        for _ in range(self.rng.randrange(1, 5)):
            self.emit("try:")
            self.emit("    t += " + self.pick("next(g)", "next(g, 1)", "g.send(None)", "g.send(t)", "g.throw(ValueError(1))",
                                              "g.throw(E1(t))", "g.throw(KeyError)", "g.close() or 0",
                                              "g.throw(GeneratorExit) or 0", "sum(g)"))
            self.emit("except (StopIteration, E0, ValueError, KeyError, TypeError%s):"
                      % self.pick("", ", RuntimeError", ", GeneratorExit"))
            self.emit("    t += 1")
        if self.hooks_hold_locals:
            self.indent -= 1
            self.emit("finally:")
            self.emit("    t += closed(g)")
        return cost

    def s_yield(self, room, depth, ctx):
        self.emit(self.pick("yield t", "t += (yield t) or 1", "yield t %% 5", "yield t", "t += (yield) or 2"
                            if self.chance(20) else "yield 1").replace("%%", "%"))
        return 2

    def s_yield_plain(self, room, depth, ctx):
        self.emit("yield t")
        return 2

    def s_from(self, room, depth, ctx):
        if not self.gens:
            return self.s_yield(room, depth, ctx)
        fit = [(g, c) for g, c in self.gens if c <= room]
        if not fit:
            return self.s_yield(room, depth, ctx)
        g, cost = self.rng.choice(fit)
        self.emit(self.pick("t += (yield from %s(%s)) or 0", "yield from %s(%s)",
                            "yield from map(abs, %s(%s))", "yield from [v for v in %s(%s)]") % (g, self.number()))
        return cost * 2

    def s_await(self, room, depth, ctx):
        fit = [(c, cost) for c, cost in self.coros if cost <= room]
        if not fit or self.chance(25):
            self.emit(self.pick("t += (await Step(t)) or 1", "await Step(1)"))
            return 6
        c, cost = self.rng.choice(fit)
        self.emit("t += await %s(%s)" % (c, self.number()))
        return cost * 2

    def s_async_for(self, room, depth, ctx):
        if not self.agens or not depth:
            return self.s_await(room, depth, ctx)
        a, cost = self.rng.choice(self.agens)
        if cost * 2 > room:
            return self.s_await(room, depth, ctx)
        # nothing is left suspended: what happens to a dropped asynchronous generator is up to its hooks
        self.emit("async for v in %s(%s):" % (a, self.number()))
        self.emit("    t += v or 0")
        return cost * 2

    def s_async_with(self, room, depth, ctx):
        self.emit("async with Door(t)%s:" % self.pick("", " as w"))
        return 20 + self.block(room - 20, max(depth - 1, 0), ctx - {"loop"})

    def s_async_comp(self, room, depth, ctx):
        if not self.agens or "agen" in ctx:
            return self.s_await(room, depth, ctx)
        a, cost = self.rng.choice(self.agens)
        if cost * 2 > room:
            return self.s_await(room, depth, ctx)
        self.emit("t += %s" % self.pick("len([v async for v in %s(%s)])", "len({v async for v in %s(%s) if v})")
                  % (a, self.number()))
        return cost * 2

    def s_match(self, room, depth, ctx):
        text, cost = self.call(room // 2)
        self.emit("match (%s, t):" % text)
        self.emit("    case (0, _):")
        self.indent += 1
        cost += self.block(room // 4, 0, ctx)
        self.emit("case (a, b) if a > b:")
        cost += self.block(room // 4, 0, ctx)
        self.emit("case _:")
        self.emit("    t += 1")
        self.indent -= 1
        return cost

    def s_star(self, room, depth, ctx):
        calm = ctx - {"loop"}  # no way out of an except* block
        text, cost = self.call(room // 2)
        self.emit("try:")
        self.emit("    t += %s" % text)
        self.emit("    raise ExceptionGroup('g', [ValueError(1), ExceptionGroup('h', [E1(2), KeyError(3)])])")
        self.emit("except* ValueError:")
        text, more = self.call(room // 4)
        self.emit("    t += %s" % text)
        self.emit("except* (E0, KeyError):")
        cost += more + self.block(room // 4, 0, calm)
        return cost

    def s_generic(self, room, depth, ctx):
        f = self.name("generic")
        if self.chance(50):
            self.emit("def %s[T: int](x: T, t=1) -> T:" % f)
            cost = self.block(room // 2, 0, set())
            self.emit("    return t")
            self.emit("t += %s(x)" % f)
        else:
            self.emit("class %s[T]:" % f)
            self.emit("    def get(self, x, t=1) -> T:")
            self.indent += 1
            cost = self.block(room // 2, 0, set())
            self.indent -= 1
            self.emit("        return t")
            self.emit("t += %s[int]().get(x)" % f)
        return cost + 12

    # --- definitions ---

    def function(self):
        f = self.name("f")
        style = self.rng.randrange(6)
        head = ("x", "x, *rest, t=1", "x, t=1, **kw", "x, t=1", "x", "x, *, t=1")[style]
        if style == 3 and self.version >= (3, 8):
            head = "x, /, t=1"
        decorated = self.chance(12)
        if decorated:
            self.emit("@" + self.pick("wrapped", "functools.singledispatch", "wrapped_twice"))
        self.emit("def %s(%s)%s:" % (f, head, " -> int" if self.chance(20) else ""))
        if "t" not in head.replace("rest", ""):
            self.emit("    t = x")
        cost = self.block(COST_MAX, 3, set())
        self.emit("    return t")
        cost += 2 + 6 * decorated
        text = self.pick("%s({x})", "%s({x})", "%s(*({x},))", "%s(**{{'x': {x}}})" if style != 3 else "%s({x})")
        self.add(text.replace("{{", "{").replace("}}", "}") % f, cost)

    def recursive(self):
        f = self.name("r")
        depth = self.pick(3, 5, 20, 300, 700)
        self.emit("def %s(x, n=0):" % f)
        self.emit("    t = n")
        leaf = depth > 20
        if leaf:
            self.emit("    if n >= %d:" % depth)
            self.indent += 1
            cost = self.block(60, 1, set()) + depth * 2
            self.emit("    return t")
            self.indent -= 1
        else:
            self.emit("    if n >= %d:" % depth)
            self.emit("        return t")
            cost = (self.block(COST_MAX // depth // 2, 1, set()) + 2) * depth
        kind = self.rng.randrange(4)
        if kind == 0:
            self.emit("    return t + %s(x, n + 1)" % f)
        elif kind == 1 and depth <= 20:
            self.emit("    return max([n + 1], key=lambda n: %s(x, n))" % f)
            cost *= 2
        elif kind == 2:
            self.emit("    try:")
            self.emit("        t += %s(x, n + 1)" % f)
            self.emit("    finally:")
            self.emit("        t += 1")
            self.emit("    return t")
        else:
            self.emit("    t += %s(x, n=n + 1)" % f)
            self.emit("    return t")
        # deep ones are called from the program's top only
        (self.deep if cost > COST_MAX else self.calls).append(Callee("%s({x})" % f, cost))

    deep = None

    def generator(self):
        g = self.name("g")
        self.emit("def %s(x, t=0):" % g)
        self.indent += 1
        greedy = self.chance(15)
        if greedy:
            self.emit("try:")
            self.indent += 1
        self.emit(self.pick("yield x", "t += x", "yield t"))
        self.emit("if x is None:")
        self.emit("    yield")  # a generator, whatever follows
        self.indent -= 1
        cost = self.block(COST_MAX // 2, 3, {"gen"}) + self.block(COST_MAX // 4, 2, {"gen"})
        if greedy:
            # a generator that does not want to be closed
            self.emit("except GeneratorExit:")
            self.emit("    t += 1")
            self.emit("    " + self.pick("raise", "yield t", "return t"))
            self.indent -= 1
        self.emit("    return t" if self.chance(60) else "    yield t")
        self.gens.append((g, cost + 8))
        if self.chance(15):
            c = self.name("cm")
            self.emit("@contextlib.contextmanager")
            self.emit("def %s(x, t=0):" % c)
            self.emit("    try:")
            self.emit("        yield x")
            self.emit("    except %s:" % self.pick("ValueError", "E0", "KeyError"))
            self.emit("        t += 1")
            self.ctxs.append((c, 30))

    def coroutine(self):
        c = self.name("co")
        self.emit("async def %s(x, t=0):" % c)
        cost = self.block(COST_MAX // 2, 2, {"coro"}) + self.block(COST_MAX // 4, 2, {"coro"})
        self.emit("    return t")
        self.coros.append((c, cost + 6))
        self.add("drive(%s({x}), %d)" % (c, self.rng.randrange(2, 30)), cost * 2 + 40)

    def async_generator(self):
        a = self.name("ag")
        self.emit("async def %s(x, t=0):" % a)
        self.emit("    yield x")
        cost = self.block(COST_MAX // 3, 2, {"agen"}) + 8
        self.agens.append((a, cost))
        self.add("drive_agen(%s({x}), %d)" % (a, self.rng.randrange(6)), cost * 2 + 40)

    def method(self, head, room=60, result="t", pre=""):
        """A method of a class; returns its cost."""
        self.emit("    def %s:" % head)
        self.indent += 1
        self.emit("    t = %s" % self.pick("1", "2", "self.v" if pre == "" else "1"))
        if "x" not in head:
            self.emit("    x = 3")
        cost = self.block(room, 1, set())
        self.emit("    return %s" % result)
        self.indent -= 1
        return cost + 2

    def klass(self):
        c = self.name("C")
        base = self.rng.choice(self.classes) if self.classes and self.chance(40) else ""
        meta = "metaclass=Meta" if not base and self.chance(20) else ""
        self.emit("class %s%s:" % (c, "(%s)" % (base or meta) if base or meta else ""))
        room = 40
        if self.chance(15):
            text, cost = self.call(room)
            self.emit("    x, t = 1, 2")
            self.emit("    try:")
            self.emit("        body = %s", text)
            self.emit("    except ANY:")
            self.emit("        body = 0")
        if base and self.chance(60):
            init = self.method("__init__(self, v, x=1)", room, "None", "pre")
            self.lines.insert(len(self.lines) - 1, "    " * (self.indent + 2) + "super().__init__(v)")
            init += 200
        else:
            init = self.method("__init__(self, v, x=1)", room, "None", "pre")
            head = next(i for i in range(len(self.lines) - 1, -1, -1) if "def __init__" in self.lines[i])
            self.lines.insert(head + 1, "    " * (self.indent + 2) + "self.v = v")
        uses = []
        options = [
            ("m(self, x)", "t", "%s({x}).m({x})"),
            ("prop(self)", "t", "%s({x}).prop"),
            ("of(cls, x)", "t", "%s.of({x})"),
            ("stat(x)", "t", "%s.stat({x})"),
            ("__add__(self, x)", "t", "(%s({x}) + 1)"),
            ("__getitem__(self, x)", "t", "%s({x})[2]"),
            ("__len__(self)", "abs(t) % 50", "len(%s({x}))"),
            ("__bool__(self)", "t > 1", "(1 if %s({x}) else 2)"),
            ("__call__(self, x)", "t", "%s({x})(4)"),
            ("__getattr__(self, x)", "t", "%s({x}).missing"),
            ("__contains__(self, x)", "t > 1", "(5 in %s({x}))"),
            ("__eq__(self, x)", "t > 1", "(%s({x}) == 3)"),
            ("__lt__(self, x)", "t > 1", "len(sorted([%s(1), %s(2)]))"),
            ("__index__(self)", "abs(t) % 5", "len(range(%s({x})))"),
            ("__format__(self, x)", "str(t)", "len('{0:a}'.format(%s({x})))"),
            ("__str__(self)", "str(t)", "len(str(%s({x})))"),
            ("__iter__(self)", "iter((1, 2))", "sum(%s({x}))"),
            ("__setitem__(self, x, v)", "None", "operator.setitem(%s({x}), 1, 2) or 1"),
            ("__getattribute__(self, x)", "t", "%s({x}).anything"),
            ("__setattr__(self, x, v)", "None", "(setattr(%s({x}), 'a', 1) or 1)"),
            ("__neg__(self)", "t", "-%s({x})"),
            ("__radd__(self, x)", "t", "(1 + %s({x}))"),
            ("__del__(self)", "None", "(%s({x}) is None) + 1"),
            ("__hash__(self)", "t", "len({%s(1): 1})"),
        ]
        for head, result, use in self.rng.sample(options, self.rng.randrange(2, 7)):
            if head.startswith(("__getattribute__", "__setattr__")):
                # these see self.v and self.x of the others too: kept simple
                self.emit("    def %s:" % head)
                if head.startswith("__getattribute__"):
                    self.emit("        return object.__getattribute__(self, x) if x in ('v', '__class__', '__dict__') else 7")
                    uses = []
                else:
                    self.emit("        object.__setattr__(self, x, v)")
                uses.append((use, 8))
                if head.startswith("__getattribute__"):
                    break
                continue
            if head.startswith("prop"):
                self.emit("    @property")
            elif head.startswith("of"):
                self.emit("    @classmethod")
            elif head.startswith("stat"):
                self.emit("    @staticmethod")
            no_self = head.startswith(("of", "stat", "__del__"))
            if head.startswith("__del__"):
                # it must not raise: that would be reported by hooks of the library
                self.emit("    def __del__(self):")
                self.emit("        tick()")
                cost = 4
            else:
                cost = self.method(head, room, result, "pre" if no_self else "")
            uses.append((use, cost))
        if self.chance(40):
            text, cost = self.call(room)
            self.emit("    attr = Described(lambda x, t=1: %s)", text)
            uses.append(("%s({x}).attr", cost + 6))
        for use, cost in uses:
            self.add(use.replace("%s", c), init + cost * 2 + 10)
        if self.chance(40) and uses:
            n = self.name("ctx")
            self.emit("class %s:" % n)
            self.emit("    def __init__(self, v):")
            self.emit("        self.v = v")
            cost = self.method("__enter__(self)", room, "self")
            cost += self.method("__exit__(self, x, y, z)".replace("x,", "kind,"), room,
                                self.pick("False", "True", "t % 2"))
            self.ctxs.append((n, cost + 8))
        # what reads oddly in a subclass stays without one
        if not any(u.endswith(".anything") for u, _ in uses):
            self.classes.append(c)

    def add(self, expr, cost):
        (self.calls if cost <= COST_MAX else self.deep).append(Callee(expr, cost))

    def guarded(self, statement):
        self.emit("    try:")
        self.emit("        %s" % statement)
        self.emit("    except ANY:")
        self.emit("        t += 1")

    def build(self):
        self.deep = []
        makers = ([self.function] * 5 + [self.generator] * 4 + [self.klass] * 3 + [self.coroutine] * 2
                  + [self.async_generator, self.recursive])
        self.generator()
        self.function()
        for _ in range(self.rng.randrange(14, 24)):
            self.rng.choice(makers)()
        self.emit("def %s_work(x):" % self.p)
        self.emit("    t = 0")
        spent = 0
        pool = self.calls + self.deep
        while spent < PROGRAM_MAX * 2:
            callee = self.rng.choice(pool)
            spent += callee.cost + 20
            self.guarded("t += %s" % callee.expr.replace("{x}", self.pick("x", "1", "2", "t % 9")))
        self.emit("    del KEEP()[:]")
        self.emit("    return t")
        self.emit("def %s_main():" % self.p)
        self.emit("    t = %s_work(1)" % self.p)
        if self.chance(50):
            self.emit("    together(%s_work, %d)", self.p, self.rng.randrange(2, 5))
        if self.coros and self.chance(60):
            names = [self.rng.choice(self.coros)[0] for _ in range(3)]
            self.emit("    run_tasks([%s])" % ", ".join(names))
        if self.gens and self.chance(50):
            self.emit("    hand_over(%s)" % self.rng.choice(self.gens)[0])
        # before 3.12 the oracle's own hook would be where the signal arrives
        if self.version >= (3, 12) and self.calls and self.chance(30):
            self.emit("    x = t = 1")
            self.emit("    signalled(lambda x, t: %s)" % self.call(100)[0])
        self.emit("%s_main()" % self.p)
        return self.lines


PRELUDE = '''"""Made by tests/e2e/progen.py from the seeds {seeds}."""
import asyncio
import contextlib
import functools
import gc
import itertools
import operator
import re
import signal
import sys
import threading

gc.disable()  # what is collected, and when, must not depend on who watches
sys.setrecursionlimit(20000)
threading.stack_size(256 << 20)
sys.unraisablehook = lambda *_: None
MINE = threading.local()
ANY = (Exception, GeneratorExit) + ((BaseExceptionGroup,) if sys.version_info >= (3, 11) else ())


class E0(Exception):
    pass


class E1(E0, ValueError):
    def __init__(self, *args):
        super().__init__(*args)


class Meta(type):
    def __new__(mcs, *args, **kw):
        return super().__new__(mcs, *args, **kw)

    def __call__(cls, *args, **kw):
        return super().__call__(*args, **kw)

    def __prepare__(name, bases, **kw):
        return dict()


class Described:
    def __init__(self, f):
        self.f = f

    def __set_name__(self, owner, name):
        tick()

    def __get__(self, obj, owner):
        return self.f(1)


class Step:
    def __init__(self, v):
        self.v = v

    def __await__(self):
        got = yield self.v
        return got


class Door:
    def __init__(self, v):
        self.v = v

    async def __aenter__(self):
        await Step(1)
        return self

    async def __aexit__(self, kind, error, tb):
        await Step(2)
        return kind is not None and self.v % 2 == 0


def tick():
    pass


def KEEP():
    if not hasattr(MINE, "kept"):
        MINE.kept = []
    return MINE.kept


def closed(g):
    """Closes a generator, also one that does not want to."""
    for _ in range(50):
        try:
            g.close()
            return 0
        except RuntimeError:
            tick()
        except ANY:
            return 1
    return 2


def fresh(source, name):
    space = dict(globals())
    exec(compile(source, __file__, "exec"), space)
    return space[name]


def wrapped(f):
    @functools.wraps(f)
    def wrapper(*args, **kw):
        return f(*args, **kw)
    return wrapper


def wrapped_twice(f):
    return wrapped(wrapped(f))


def drive(coro, rounds):
    """Some rounds by hand, then an exception thrown in, then closed."""
    t = 0
    try:
        for i in range(rounds):
            coro.send(i if i else None)
            t += 1
        coro.throw(E1(t))
        coro.send(None)
    except StopIteration as e:
        t += e.value or 0
    except ANY:
        t += 1
    finally:
        closed(coro)
    return t


def drive_agen(agen, how):
    async def walk():
        t = 0
        try:
            async for v in agen:
                t += v or 0
                if how == 1:
                    await agen.aclose()
                elif how == 2:
                    t += await agen.athrow(E1(1)) or 0
                elif how == 3:
                    t += await agen.asend(t) or 0
                elif how == 4:
                    break
        except StopAsyncIteration:
            t += 1
        finally:
            await agen.aclose()
        return t
    return drive(walk(), 60)


def together(f, n):
    def body(k):
        try:
            f(k)
        except ANY:
            tick()
    threads = [threading.Thread(target=body, args=(k,)) for k in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


class Hop:
    """Awaitable under asyncio too, unlike Step: a bare yield lets the others run."""
    def __await__(self):
        yield


async def one_task(make, k):
    coro = make(k)
    t = 0
    try:
        for i in range(40):
            coro.send(None)
            t += 1
            if i % 3 == 0:
                await Hop()
    except (StopIteration, GeneratorExit):
        tick()
    finally:
        closed(coro)
    return t


async def all_tasks(makers):
    tasks = [asyncio.ensure_future(one_task(m, k)) for k, m in enumerate(makers)]
    await asyncio.sleep(0)
    tasks[-1].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def run_tasks(makers):
    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(all_tasks(makers))
    finally:
        loop.close()


def hand_over(make):
    """A generator that is started in one thread, goes on in another and ends in the first."""
    g = make(2)

    def turn():
        try:
            next(g)
            g.throw(E1(1))
        except ANY:
            tick()
    turn()
    t = threading.Thread(target=turn)
    t.start()
    t.join()
    turn()
    try:
        g.close()
    except ANY:
        tick()


def signalled(f):
    def handler(number, frame):
        try:
            f(1, 2)
        except ANY:
            tick()
    old = signal.signal(signal.SIGUSR1, handler)
    for _ in range(3):
        signal.raise_signal(signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, old)


'''


def program(seeds, version):
    lines = PRELUDE.replace("{seeds}", ", ".join(map(str, seeds))).splitlines()
    for seed in seeds:
        lines += Program(seed, version).build()
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    first, _, last = sys.argv[1].partition("-")
    minor = int(sys.argv[2].partition(".")[2]) if len(sys.argv) > 2 else 6
    sys.stdout.write(program(range(int(first), int(last or first) + 1), (3, minor)))
