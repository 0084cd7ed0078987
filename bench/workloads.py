#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The programs that scripts/bench runs under each tool. Python 3.8 or later.

workloads.py NAME [--size N] [--hook setprofile|monitoring|count] [--wait] [--out FILE]

The time is taken here, around the workload alone: start-up, imports and what a tool writes at the end
are apart. --wait prints the pid and waits for a line on stdin before the workload, and for another or the
end of stdin after it."""
import argparse
import json
import os
import sys
import time


def add(a, b):
    return a + b


class Add:
    size = 1000000

    def run(self, n):
        for i in range(n):
            add(i, 1)


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


class Fib:
    size = 26

    def run(self, n):
        fib(n)


class Json:
    """The standard library's encoder and decoder without their C parts."""
    size = 8

    def __init__(self):
        import json.decoder as dec
        import json.encoder as enc
        import json.scanner as scan
        enc.c_make_encoder = None
        enc.encode_basestring_ascii = enc.py_encode_basestring_ascii
        dec.scanstring = dec.py_scanstring
        self.decoder = dec.JSONDecoder()
        self.decoder.parse_string = dec.py_scanstring
        self.decoder.scan_once = scan.py_make_scanner(self.decoder)
        self.encoder = enc.JSONEncoder()
        self.doc = {"items": [{"id": i, "name": "item %d" % i, "tags": ["a", "b%d" % (i % 7), "\u00e9t\u00e9"],
                               "price": i * 1.25, "ok": i % 2 == 0, "none": None,
                               "dim": {"w": i, "h": i + 1, "d": [i, i * 2, i * 3]}} for i in range(200)]}

    def run(self, n):
        for _ in range(n):
            self.decoder.decode(self.encoder.encode(self.doc))


class Template:
    """html.parser over a page, string.Template over its rows."""
    size = 24

    def __init__(self):
        import html.parser
        import string

        class Parser(html.parser.HTMLParser):
            seen = 0

            def handle_starttag(self, tag, attrs):
                self.seen += 1

            def handle_endtag(self, tag):
                self.seen += 1

            def handle_data(self, data):
                self.seen += len(data)

        self.parser = Parser
        self.template = string.Template("$name has ${count} of $what, total $$ ${total}\n")
        self.page = "<html><body>" + "".join(
            "<div class='c%d' id=\"i%d\"><p>text &amp; more %d</p><br/><a href='/x?%d'>go</a><!-- c --></div>"
            % (i % 5, i, i, i) for i in range(120)) + "</body></html>"
        self.run(1)

    def run(self, n):
        for _ in range(n):
            parser = self.parser()
            parser.feed(self.page)
            parser.close()
            for i in range(150):
                self.template.substitute(name="n%d" % i, count=i, what="things", total=i * 2)


class Parser:
    """The standard library's TOML parser, which is all Python (3.11 or later)."""
    size = 60

    def __init__(self):
        import tomllib
        self.parse = tomllib.loads
        self.text = "".join(
            "[[package]]\nname = \"package-%d\"  # one of many\nversion = '%d.%d.0'\nsizes = [%d, 0x%x, 1_000, -7]\n"
            "wheels = [{ url = \"https://example.org/%d\", hash = \"sha256:%064x\" }]\nratio = %d.5e-3\nwanted = true\n"
            "[package.extra]\n\"when\" = 2024-01-%02dT10:00:00Z\ntext = \"\"\"\nline %d\n\"\"\"\n\n"
            % (i, i % 7, i, i, i, i, i, i, i % 28 + 1, i) for i in range(40))

    def run(self, n):
        for _ in range(n):
            self.parse(self.text)


class Asyncio:
    """Lines through an echo server on loopback, ten clients, one loop."""
    size = 300

    def __init__(self):
        import asyncio
        self.asyncio = asyncio

    async def echo(self, reader, writer):
        while True:
            line = await reader.readline()
            if not line:
                break
            writer.write(line)
            await writer.drain()
        writer.close()

    async def client(self, port, n):
        reader, writer = await self.asyncio.open_connection("127.0.0.1", port)
        for i in range(n):
            writer.write(b"line %d\n" % i)
            await writer.drain()
            await reader.readline()
        writer.close()
        await writer.wait_closed()

    async def main(self, n):
        server = await self.asyncio.start_server(self.echo, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        await self.asyncio.gather(*[self.client(port, n) for _ in range(10)])
        server.close()

    def run(self, n):
        loop = self.asyncio.new_event_loop()
        try:
            loop.run_until_complete(self.main(n))
        finally:
            loop.close()


class Django:
    """A list view: query on sqlite in memory, template of 20 rows."""
    size = 40

    def __init__(self):
        import types

        import django
        from django.conf import settings
        urls = sys.modules["bench_urls"] = types.ModuleType("bench_urls")  # a tool can be __main__
        row = ("<li class='{% cycle 'a' 'b' %}'>{{ u.username|upper }} {{ u.email|default:'-' }} "
               "{{ forloop.counter }}</li>")
        page = "<ul>{% for u in users %}" + row + "{% endfor %}</ul>"
        settings.configure(
            DEBUG=False, ALLOWED_HOSTS=["*"], ROOT_URLCONF="bench_urls", SECRET_KEY="x",
            INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth"],
            DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
            MIDDLEWARE=["django.middleware.security.SecurityMiddleware",
                        "django.middleware.common.CommonMiddleware"],
            TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates",
                        "OPTIONS": {"loaders": [("django.template.loaders.locmem.Loader", {"t.html": page})]}}])
        django.setup()
        from django.core.management import call_command
        from django.contrib.auth.models import User
        from django.shortcuts import render
        from django.test import Client
        from django.urls import path
        call_command("migrate", verbosity=0, run_syncdb=True)
        for i in range(20):
            User.objects.create(username="user%d" % i, email="u%d@x.org" % i)

        def view(request):
            return render(request, "t.html", {"users": User.objects.filter(id__gt=0).order_by("username")[:20]})

        urls.urlpatterns = [path("", view)]
        self.client = Client()
        self.run(10)

    def run(self, n):
        for _ in range(n):
            if self.client.get("/").status_code != 200:
                raise SystemExit("the request failed")


class Pace:
    """Calls at a rate: size is SECONDS:CALLS_PER_S; 0 calls per second: as fast as it goes."""
    size = "10:500000"

    def run(self, size):
        seconds, rate = (float(x) for x in str(size).split(":"))
        batch, self.calls = 1000, 0
        now = start = time.perf_counter()
        while now - start < seconds:
            for i in range(batch):
                add(i, 1)
            self.calls += batch
            now = time.perf_counter()
            if rate:
                ahead = self.calls / rate - (now - start)
                if ahead > 0:
                    time.sleep(ahead)


WORKLOADS = {"add": Add, "fib": Fib, "json": Json, "template": Template, "parser": Parser, "asyncio": Asyncio, "django": Django,
             "pace": Pace}


def hook_none():
    return lambda: None


def hook_setprofile():
    sys.setprofile(lambda frame, event, arg: None)
    return lambda: sys.setprofile(None)


def hook_monitoring():
    mon = sys.monitoring
    mon.use_tool_id(mon.PROFILER_ID, "bench")
    events = mon.events
    mask = 0
    for event in (events.PY_START, events.PY_RETURN, events.PY_RESUME, events.PY_YIELD, events.PY_UNWIND):
        mon.register_callback(mon.PROFILER_ID, event, lambda *args: None)
        mask |= event
    mon.set_events(mon.PROFILER_ID, mask)
    return lambda: mon.set_events(mon.PROFILER_ID, 0) or mon.free_tool_id(mon.PROFILER_ID)


class Count:
    """How many calls and returns of Python code there are: what "per event" divides by."""

    def __init__(self):
        self.events = 0

    def __call__(self, frame, event, arg):
        if event in ("call", "return"):
            self.events += 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=sorted(WORKLOADS))
    parser.add_argument("--size")
    parser.add_argument("--hook", default="", choices=["", "setprofile", "monitoring", "count"])
    parser.add_argument("--wait", action="store_true")
    parser.add_argument("--out", default="")
    args = parser.parse_args()
    workload = WORKLOADS[args.name]()
    size = args.size if args.size else workload.size
    if isinstance(workload.size, int):
        size = int(size)
    if args.wait:
        print(os.getpid(), flush=True)
        sys.stdin.readline()
    counter = Count()
    stop = {"": hook_none, "setprofile": hook_setprofile, "monitoring": hook_monitoring,
            "count": lambda: sys.setprofile(counter) or (lambda: sys.setprofile(None))}[args.hook]()
    cpu = time.process_time()
    start = time.perf_counter()
    workload.run(size)
    elapsed = time.perf_counter() - start
    cpu = time.process_time() - cpu
    stop()
    result = {"name": args.name, "elapsed": elapsed, "cpu": cpu, "events": counter.events,
              "calls": getattr(workload, "calls", 0)}
    if args.out:
        with open(args.out + ".tmp", "w") as f:
            json.dump(result, f)
        os.rename(args.out + ".tmp", args.out)
        if args.wait:
            sys.stdin.readline()  # the trace goes on until we are let go
    else:
        print(json.dumps(result))


if __name__ == "__main__":
    main()
