#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Strict checker of Firefox Profiler files (processed format, version 70).

The viewer and its command line load most broken files without a word. This one accepts only what
is right in every row, and names table, column and row of what is not:

    threads[0].samples.stack[12]: 99 is no row of shared.stackTable (43 rows)

As a program: firefox_check.py [--totals] FILE...; exit 1 if something is wrong.
As a module: load(path) -> profile, check(profile) -> list of complaints, totals(profile).
"""

import argparse
import gzip
import json
import re
import sys

VERSION = 70
GECKO_VERSION = 36
COMPLAINTS_MAX = 50

COLORS = {"transparent", "purple", "green", "orange", "yellow", "lightblue", "blue", "brown",
          "magenta", "red", "lightred", "darkgrey", "grey"}
GRAPH_COLORS = {"blue", "green", "grey", "ink", "magenta", "orange", "purple", "red", "teal",
                "yellow"}
DISPLAYS = {"marker-chart", "marker-table", "timeline-overview", "timeline-memory",
            "timeline-ipc", "timeline-fileio", "timeline-network"}
LOSSES = ("ring", "map", "read", "kernel", "user", "throttle")
RESERVED_NAMES = re.compile(r"(GeckoMain|Compositor|Renderer)$|Audio|Media|GraphRunner|WebrtcWorker")


class Broken(Exception):
    """The file is no JSON, or no JSON that the viewer's strict loader takes."""


# --- reading ---

def _number(text):
    if "e" in text or "E" in text:
        raise Broken(f"number with an exponent: {text}")
    if len(text) - text.index(".") > 7:
        raise Broken(f"number with more than 6 decimals: {text}")
    if text.endswith("0"):
        raise Broken(f"number with a trailing zero: {text}")
    return float(text)


def _constant(text):
    raise Broken(f"{text} is no JSON")


def _object(pairs):
    result = dict(pairs)
    if len(result) != len(pairs):
        keys = [key for key, _ in pairs]
        raise Broken(f"key twice: {next(k for k in keys if keys.count(k) > 1)}")
    return result


def parse(data):
    """Profile of the bytes of a file, gzip or plain."""
    try:
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
        return json.loads(data.decode("utf-8"), parse_float=_number, parse_constant=_constant,
                          object_pairs_hook=_object)
    except (OSError, EOFError, UnicodeDecodeError, json.JSONDecodeError) as e:
        raise Broken(f"not readable: {e}") from e


def load(path):
    with open(path, "rb") as f:
        return parse(f.read())


# --- kinds of values: a name for messages, and a test ---

def is_int(v):
    return type(v) is int


def is_number(v):
    return type(v) in (int, float) and v == v and v not in (float("inf"), float("-inf"))


def is_string(v):
    return type(v) is str


def is_bool(v):
    return type(v) is bool


def is_list(v):
    return type(v) is list


def is_object(v):
    return type(v) is dict


def either(*tests):
    return lambda v: any(test(v) for test in tests)


def is_null(v):
    return v is None


def one_of(*values):
    return lambda v: type(v) in (str, int) and v in values


def list_of(test):
    return lambda v: type(v) is list and all(test(x) for x in v)


FORMATS = {
    "url": is_string, "file-path": is_string, "sanitized-string": is_string, "string": is_string,
    "unique-string": is_int, "flow-id": is_int, "terminating-flow-id": is_int,
    "duration": is_number, "time": is_number, "seconds": is_number, "milliseconds": is_number,
    "microseconds": is_number, "nanoseconds": is_number, "bytes": is_number,
    "percentage": is_number, "integer": is_int, "decimal": is_number, "hexadecimal": is_int,
    "pid": either(is_int, is_string), "tid": either(is_int, is_string), "list": is_list,
}

META_KEYS = {
    "interval": is_number, "startTime": is_number, "processType": is_int, "product": is_string,
    "stackwalk": one_of(0, 1), "version": is_int, "preprocessedProfileVersion": is_int,
    "markerSchema": list_of(is_object), "categories": list_of(is_object),
    "profilingStartTime": is_number, "profilingEndTime": is_number, "symbolicated": is_bool,
    "sampleUnits": is_object, "extra": list_of(is_object),
}
META_OPTIONAL = {
    "startTimeAsClockMonotonicNanosecondsSinceBoot": is_int, "importedFrom": is_string,
    "symbolicationNotSupported": is_bool, "usesOnlyOneStackType": is_bool,
    "sourceCodeIsNotOnSearchfox": is_bool, "keepProfileThreadOrder": is_bool,
    "initialVisibleThreads": list_of(is_int), "initialSelectedThreads": list_of(is_int),
    "arguments": is_string, "oscpu": is_string, "platform": is_string, "abi": is_string,
    "CPUName": is_string, "physicalCPUs": is_int, "logicalCPUs": is_int, "mainMemory": is_int,
}

THREAD_KEYS = {
    "processType": is_string, "processStartupTime": is_number,
    "processShutdownTime": either(is_number, is_null), "registerTime": is_number,
    "unregisterTime": either(is_number, is_null), "pausedRanges": list_of(is_object),
    "name": is_string, "isMainThread": is_bool, "pid": is_string,
    "tid": either(is_int, is_string), "samples": is_object, "markers": is_object,
    "processName": is_string,
}
THREAD_OPTIONAL = {"showMarkersInTimeline": is_bool, "isJsTracer": is_bool,
                   "nativeAllocations": is_object}

COUNTER_KEYS = {"name": is_string, "category": is_string, "description": is_string,
                "pid": is_string, "mainThreadIndex": is_int, "samples": is_object,
                "display": is_object}
DISPLAY_KEYS = {"graphType": one_of("line-accumulated", "line-rate"), "unit": is_string,
                "color": one_of(*GRAPH_COLORS), "sortWeight": is_int, "label": is_string,
                "markerSchemaLocation": either(is_null, one_of(*DISPLAYS)),
                "tooltipRows": list_of(is_object)}

LIB_KEYS = {"arch": is_string, "name": is_string, "path": is_string, "debugName": is_string,
            "debugPath": is_string, "breakpadId": is_string,
            "codeId": either(is_string, is_null)}

# table -> column -> what it holds: a test, or ("->", table, value allowed beside an index...)
SHARED = {
    "sources": {
        "id": either(is_string, is_null), "filename": ("->", "stringArray"),
        "startLine": is_int, "startColumn": is_int,
        "sourceMapURL": ("->", "stringArray", None), "content": either(is_string, is_null)},
    "resourceTable": {
        "name": ("->", "stringArray"), "host": ("->", "stringArray", None),
        "type": one_of(0, 1, 2, 3, 4, 5)},
    "funcTable": {
        "name": ("->", "stringArray"), "isJS": is_bool, "relevantForJS": is_bool,
        "resource": ("->", "resourceTable", -1), "source": ("->", "sources", None),
        "lineNumber": either(is_int, is_null), "columnNumber": either(is_int, is_null),
        "originalLocation": ("->", "sourceLocationTable", None)},
    "nativeSymbols": {
        "libIndex": ("->", "libs"), "address": is_int, "name": ("->", "stringArray"),
        "functionSize": either(is_int, is_null)},
    "frameTable": {
        "address": is_int, "lib": ("->", "libs", -1), "inlineDepth": is_int,
        "category": ("->", "meta.categories", None), "subcategory": either(is_int, is_null),
        "func": ("->", "funcTable"), "nativeSymbol": ("->", "nativeSymbols", None),
        "innerWindowID": is_int, "line": either(is_int, is_null),
        "column": either(is_int, is_null),
        "originalLocation": ("->", "sourceLocationTable", None)},
    "stackTable": {"frame": ("->", "frameTable"), "prefixOffset": is_int},
    "sourceLocationTable": {"source": ("->", "sources"), "line": is_int, "column": is_int},
}


class Checker:
    def __init__(self, profile):
        self.profile = profile
        self.complaints = []
        self.rows = {}  # table -> number of rows
        self.used = {}  # table -> set of rows that something refers to

    def complain(self, place, text):
        if len(self.complaints) < COMPLAINTS_MAX:
            self.complaints.append(f"{place}: {text}")

    def keys(self, place, obj, required, optional=None):
        """Required keys and the types of all known ones. Return: whether all are right."""
        fine = True
        for key, test in required.items():
            if key not in obj:
                self.complain(f"{place}.{key}", "missing")
                fine = False
        for key, value in obj.items():
            test = required.get(key) or (optional or {}).get(key)
            if test and not test(value):
                self.complain(f"{place}.{key}", f"wrong value {value!r:.60}")
                fine = False
        return fine

    def index(self, place, value, table, also=()):
        """An index into a table, or one of the values in also; counts the row as used."""
        if any(value is other or (value == other and type(value) is int) for other in also):
            return True
        if not is_int(value):
            self.complain(place, f"{value!r:.60} is no index into {table}")
            return False
        if not 0 <= value < self.rows.get(table, 0):
            self.complain(place, f"{value} is no row of {table} ({self.rows.get(table, 0)} rows)")
            return False
        self.used.setdefault(table, set()).add(value)
        return True

    def columns(self, place, table, names):
        """Equal lengths of the columns that must be there. Return: whether they are."""
        length = table.get("length")
        if not is_int(length) or length < 0:
            self.complain(f"{place}.length", f"wrong value {length!r:.60}")
            return False
        fine = True
        for name in names:
            column = table.get(name)
            if not is_list(column):
                self.complain(f"{place}.{name}", "missing" if name not in table else "no list")
                fine = False
            elif len(column) != length:
                self.complain(f"{place}.{name}[{min(len(column), length)}]",
                              f"{len(column)} rows, length says {length}")
                fine = False
        return fine

    # --- the parts of a profile ---

    def run(self):
        p = self.profile
        if not is_object(p):
            self.complain("profile", "no object")
            return
        if not self.keys("profile", p, {"meta": is_object, "libs": list_of(is_object),
                                        "shared": is_object, "threads": list_of(is_object)},
                         {"counters": list_of(is_object), "pages": is_list}):
            return
        if not p["threads"]:
            self.complain("threads", "empty: the viewer refuses that")
        if not self.meta(p["meta"]):
            return
        self.rows["libs"] = len(p["libs"])
        for i, lib in enumerate(p["libs"]):
            self.keys(f"libs[{i}]", lib, LIB_KEYS)
        if not self.shared(p["shared"]):
            return
        for i, thread in enumerate(p["threads"]):
            self.thread(f"threads[{i}]", thread)
        self.processes(p["threads"])
        for i, counter in enumerate(p.get("counters", [])):
            self.counter(f"counters[{i}]", counter)
        self.unreferenced()

    def meta(self, meta):
        if meta.get("preprocessedProfileVersion") != VERSION:
            self.complain("meta.preprocessedProfileVersion",
                          f"{meta.get('preprocessedProfileVersion')!r}, this checker knows {VERSION}")
            return False
        if not self.keys("meta", meta, META_KEYS, META_OPTIONAL):
            return False
        if meta["version"] != GECKO_VERSION:
            self.complain("meta.version", f"{meta['version']}, not {GECKO_VERSION}")
        if not 0 <= meta["profilingStartTime"] <= meta["profilingEndTime"] \
           or not meta["profilingEndTime"]:
            self.complain("meta.profilingEndTime", f"{meta['profilingEndTime']} after "
                          f"{meta['profilingStartTime']}: an end of 0 counts as absent")
        units = meta["sampleUnits"]
        self.keys("meta.sampleUnits", units, {
            "time": one_of("ms", "ns", "bytes"), "eventDelay": one_of("ms"),
            "threadCPUDelta": one_of("ns", "µs", "variable CPU cycles")})
        for key in ("initialVisibleThreads", "initialSelectedThreads"):
            for i, thread in enumerate(meta.get(key, [])):
                if not 0 <= thread < len(self.profile["threads"]):
                    self.complain(f"meta.{key}[{i}]", f"{thread} is no thread")
        self.extra(meta["extra"])
        self.schemas(meta["markerSchema"])
        return self.categories(meta["categories"])

    def categories(self, categories):
        fine = True
        for i, category in enumerate(categories):
            place = f"meta.categories[{i}]"
            if not self.keys(place, category, {"name": is_string, "color": one_of(*COLORS),
                                               "subcategories": list_of(is_string)}):
                fine = False
            elif category["subcategories"][:1] != ["Other"]:
                self.complain(f"{place}.subcategories[0]", "must be Other")
        if not any(c.get("color") == "grey" for c in categories):
            self.complain("meta.categories", "none is grey (the default category)")
        names = [c.get("name") for c in categories]
        if len(set(names)) != len(names):
            self.complain("meta.categories", "name twice")
        self.rows["meta.categories"] = len(categories)
        return fine

    def schemas(self, schemas):
        self.schema = {}
        for i, schema in enumerate(schemas):
            place = f"meta.markerSchema[{i}]"
            if not self.keys(place, schema, {"name": is_string, "display": list_of(is_string),
                                             "fields": list_of(is_object)}):
                continue
            for display in schema["display"]:
                if display not in DISPLAYS:
                    self.complain(f"{place}.display", f"unknown {display}")
            for j, field in enumerate(schema["fields"]):
                test = one_of(*FORMATS)
                self.keys(f"{place}.fields[{j}]", field,
                          {"key": is_string, "format": either(test, is_object)},
                          {"label": is_string, "hidden": is_bool})
            for j, graph in enumerate(schema.get("graphs", [])):
                self.keys(f"{place}.graphs[{j}]", graph, {
                    "key": is_string, "type": one_of("bar", "line", "line-filled")},
                    {"color": one_of(*GRAPH_COLORS)})
            if schema["name"] in self.schema:
                self.complain(f"{place}.name", "twice")
            self.templates(place, schema)
            self.schema[schema["name"]] = {f.get("key"): f.get("format")
                                           for f in schema["fields"]}

    def templates(self, place, schema):
        keys = {f.get("key") for f in schema["fields"]}
        for label in ("tooltipLabel", "tableLabel", "chartLabel"):
            for used in re.findall(r"\{([^}]*)\}", schema.get(label, "")):
                field = re.fullmatch(r"marker\.data\.(\w+)", used)
                if used != "marker.name" and not (field and field[1] in keys):
                    self.complain(f"{place}.{label}", f"unknown {{{used}}}")

    def extra(self, groups):
        labels = {}
        for i, group in enumerate(groups):
            place = f"meta.extra[{i}]"
            if not self.keys(place, group, {"label": is_string, "entries": list_of(is_object)}):
                return
            for j, entry in enumerate(group["entries"]):
                at = f"{place}.entries[{j}]"
                if not self.keys(at, entry, {"label": is_string, "format": one_of(*FORMATS)}):
                    continue
                if not FORMATS[entry["format"]](entry.get("value")):
                    self.complain(f"{at}.value", f"{entry.get('value')!r:.60} is no "
                                  f"{entry['format']}")
                labels[entry["label"]] = entry.get("value")
        self.losses(labels)

    def losses(self, labels):
        for label in ("File", "Events in this file", "Events lost in this file"):
            if label not in labels:
                self.complain("meta.extra", f"no entry {label!r}")
        if re.fullmatch(r"part \d+", str(labels.get("File"))):
            return  # the totals are in the last part
        wanted = ["Generated", "Written", "Lost"] + [f"Lost: {reason}" for reason in LOSSES]
        missing = [label for label in wanted if label not in labels]
        for label in missing:
            self.complain("meta.extra", f"no entry {label!r}")
        if not missing:
            lost = sum(labels[f"Lost: {reason}"] for reason in LOSSES)
            if labels["Lost"] != lost or labels["Generated"] != labels["Written"] + lost:
                self.complain("meta.extra", "generated is not written plus lost")

    def shared(self, shared):
        strings = shared.get("stringArray")
        if not list_of(is_string)(strings):
            self.complain("shared.stringArray", "missing or not all strings")
            return False
        seen = {}
        for i, s in enumerate(strings):
            if s in seen:
                self.complain(f"shared.stringArray[{i}]", f"{s!r:.60} is row {seen[s]} too")
            seen[s] = i
        self.rows["shared.stringArray"] = len(strings)
        fine = True
        for name, columns in SHARED.items():
            table = shared.get(name)
            if not is_object(table):
                self.complain(f"shared.{name}", "missing")
                fine = False
            elif not self.columns(f"shared.{name}", table, columns):
                fine = False
            else:
                self.rows[f"shared.{name}"] = table["length"]
        if not fine:
            return False
        for name, columns in SHARED.items():
            for column, kind in columns.items():
                self.column(f"shared.{name}.{column}", shared[name][column], kind)
        self.stacks(shared["stackTable"])
        self.subcategories(shared["frameTable"])
        return True

    def column(self, place, values, kind):
        if not isinstance(kind, tuple):
            for i, value in enumerate(values):
                if not kind(value):
                    self.complain(f"{place}[{i}]", f"wrong value {value!r:.60}")
            return
        table = kind[1] if kind[1] in ("libs", "meta.categories") else f"shared.{kind[1]}"
        for i, value in enumerate(values):
            self.index(f"{place}[{i}]", value, table, kind[2:])

    def stacks(self, table):
        seen = set()
        used = self.used.setdefault("shared.stackTable", set())
        rows = zip(table["frame"], table["prefixOffset"])
        for i, (frame, offset) in enumerate(rows):
            if not is_int(offset) or not 0 <= offset <= i:
                self.complain(f"shared.stackTable.prefixOffset[{i}]",
                              f"{offset!r:.60} does not lead to a row before")
                continue
            key = (i - offset if offset else -1, frame)
            if key in seen:
                self.complain(f"shared.stackTable.frame[{i}]", "the same stack twice")
            seen.add(key)
            if offset:
                used.add(i - offset)

    def subcategories(self, frames):
        categories = self.profile["meta"]["categories"]
        for i, (category, sub) in enumerate(zip(frames["category"], frames["subcategory"])):
            if category is None or not 0 <= category < len(categories):
                continue
            if not is_int(sub) or not 0 <= sub < len(categories[category]["subcategories"]):
                self.complain(f"shared.frameTable.subcategory[{i}]",
                              f"{sub!r:.60} is none of category {category}")

    def unreferenced(self):
        for table, rows in self.rows.items():
            if not table.startswith("shared."):
                continue
            used = self.used.get(table, set())
            if len(used) < rows:
                row = next(i for i in range(rows) if i not in used)
                self.complain(f"{table}[{row}]", "nothing refers to it "
                              f"({rows - len(used)} such rows)")

    # --- threads ---

    def thread(self, place, thread):
        if not self.keys(place, thread, THREAD_KEYS, THREAD_OPTIONAL):
            return
        if RESERVED_NAMES.match(thread["name"]):
            self.complain(f"{place}.name", f"{thread['name']!r} means something to the viewer")
        for end, start in (("processShutdownTime", "processStartupTime"),
                           ("unregisterTime", "registerTime")):
            if thread[end] is not None and thread[end] < thread[start]:
                self.complain(f"{place}.{end}", f"before {start}")
        for i, r in enumerate(thread["pausedRanges"]):
            self.keys(f"{place}.pausedRanges[{i}]", r, {
                "startTime": either(is_number, is_null), "endTime": either(is_number, is_null),
                "reason": one_of("profiler-paused", "collecting")})
        self.samples(f"{place}.samples", thread["samples"])
        self.markers(f"{place}.markers", thread["markers"])

    def processes(self, threads):
        names, mains, seen = {}, set(), set()
        for i, thread in enumerate(threads):
            pid = thread.get("pid")
            if names.setdefault(pid, thread.get("processName")) != thread.get("processName"):
                self.complain(f"threads[{i}].processName", f"pid {pid} has two names")
            if thread.get("isMainThread"):
                if pid in mains:
                    self.complain(f"threads[{i}].isMainThread", f"pid {pid} has two")
                mains.add(pid)
            key = (pid, thread.get("tid"), thread.get("registerTime"))
            if key in seen:
                self.complain(f"threads[{i}].tid", f"{key[1]} of pid {pid} twice")
            seen.add(key)

    def times(self, place, table):
        """Absolute times of a table with time or timeDeltas; None if they are wrong."""
        names = [n for n in ("time", "timeDeltas") if n in table]
        if len(names) != 1:
            self.complain(f"{place}.timeDeltas", f"{len(names)} of time and timeDeltas, not one")
            return None
        column = table[names[0]]
        at, result, deltas = 0, [], names[0] == "timeDeltas"
        for i, value in enumerate(column):
            if not is_number(value):
                self.complain(f"{place}.{names[0]}[{i}]", f"wrong value {value!r:.60}")
                return None
            if (deltas and value < 0) or (not deltas and result and value < result[-1]):
                self.complain(f"{place}.{names[0]}[{i}]", f"{value}: not sorted")
                return None
            # in whole nanoseconds, so that sums stay exact
            at = round(value * 1e6) + (at if deltas else 0)
            result.append(at)
        return result

    def samples(self, place, samples):
        time = "time" if "time" in samples else "timeDeltas"
        names = ["stack", time] + (["weight"] if samples.get("weight", 0) is not None else []) \
            + (["threadCPUDelta"] if "threadCPUDelta" in samples else [])
        if not self.columns(place, samples, names):
            return
        if not one_of("samples", "tracing-ms", "bytes")(samples.get("weightType")):
            self.complain(f"{place}.weightType", f"wrong value {samples.get('weightType')!r:.60}")
            return
        self.column(f"{place}.stack", samples["stack"], ("->", "stackTable", None))
        for i, cpu in enumerate(samples.get("threadCPUDelta", [])):
            if cpu is not None and not is_number(cpu):
                self.complain(f"{place}.threadCPUDelta[{i}]", f"wrong value {cpu!r:.60}")
        times = self.times(place, samples)
        if times is None:
            return
        self.in_range(place, time, times)
        if samples["weightType"] == "tracing-ms":
            self.trace(place, time, samples, times)

    def in_range(self, place, time, times):
        meta = self.profile["meta"]
        start = round(meta["profilingStartTime"] * 1e6)
        end = round(meta["profilingEndTime"] * 1e6)
        if times and times[0] < start:
            self.complain(f"{place}.{time}[0]", "before meta.profilingStartTime")
        if times and times[-1] > end:
            self.complain(f"{place}.{time}[{len(times) - 1}]", "after meta.profilingEndTime")

    def trace(self, place, time, samples, times):
        stacks, weights = samples["stack"], samples["weight"]
        if weights is None:
            self.complain(f"{place}.weight", "missing in a trace")
            return
        last = len(stacks) - 1
        for i, weight in enumerate(weights):
            gap = times[i + 1] - times[i] if i < last else 0
            if not is_number(weight) or round(weight * 1e6) != gap:
                self.complain(f"{place}.weight[{i}]", f"{weight!r:.60}, the next sample is "
                              f"{gap / 1e6} ms later")
            if i < last and not gap and stacks[i] != stacks[i + 1]:
                self.complain(f"{place}.{time}[{i + 1}]", "another stack at the same time")
        if stacks and stacks[-1] is not None:
            self.complain(f"{place}.stack[{last}]", "the last stack of a trace must be null")

    # --- markers and counters ---

    def markers(self, place, markers):
        names = ("name", "startTime", "endTime", "phase", "category", "data")
        if not self.columns(place, markers, names):
            return
        self.column(f"{place}.name", markers["name"], ("->", "stringArray"))
        self.column(f"{place}.category", markers["category"], ("->", "meta.categories"))
        rows = zip(*(markers[name] for name in names))
        for i, (_, start, end, phase, _, data) in enumerate(rows):
            self.phase(place, i, phase, start, end)
            if data is not None:
                self.data(f"{place}.data[{i}]", data)

    def phase(self, place, i, phase, start, end):
        if not one_of(0, 1, 2, 3)(phase):
            self.complain(f"{place}.phase[{i}]", f"wrong value {phase!r:.60}")
            return
        for column, value, needed in (("startTime", start, phase in (0, 1, 2)),
                                      ("endTime", end, phase in (1, 3))):
            if value is None and not needed:
                continue
            if not is_number(value) or value < 0:
                self.complain(f"{place}.{column}[{i}]", f"{value!r:.60} in phase {phase}")
                return
        if phase == 1 and end < start:
            self.complain(f"{place}.endTime[{i}]", f"{end} before the start {start}")

    def data(self, place, data):
        if not is_object(data) or data.get("type") not in self.schema:
            self.complain(f"{place}.type", "not in meta.markerSchema")
            return
        fields = self.schema[data["type"]]
        for key, value in data.items():
            if key == "type":
                continue
            if key == "cause":
                self.cause(f"{place}.cause", value)
            elif key not in fields:
                self.complain(f"{place}.{key}", f"no field of {data['type']}")
            elif not is_object(fields[key]) and not FORMATS[fields[key]](value):
                self.complain(f"{place}.{key}", f"{value!r:.60} is no {fields[key]}")
            elif fields[key] in ("unique-string", "flow-id", "terminating-flow-id"):
                self.index(f"{place}.{key}", value, "shared.stringArray")

    def cause(self, place, cause):
        if self.keys(place, cause, {"stack": is_int}, {"time": is_number,
                                                       "tid": either(is_int, is_string)}):
            self.index(f"{place}.stack", cause["stack"], "shared.stackTable")

    def counter(self, place, counter):
        if not self.keys(place, counter, COUNTER_KEYS):
            return
        self.keys(f"{place}.display", counter["display"], DISPLAY_KEYS)
        threads = self.profile["threads"]
        index = counter["mainThreadIndex"]
        if not 0 <= index < len(threads):
            self.complain(f"{place}.mainThreadIndex", f"{index} is no thread")
        elif threads[index].get("pid") != counter["pid"]:
            self.complain(f"{place}.pid", "not that of its main thread")
        samples = counter["samples"]
        time = "time" if "time" in samples else "timeDeltas"
        names = [time, "count"] + (["number"] if "number" in samples else [])
        if self.columns(f"{place}.samples", samples, names):
            self.times(f"{place}.samples", samples)
            for name in names[1:]:
                self.column(f"{place}.samples.{name}", samples[name], is_number)


def check(profile):
    """Complaints about a profile, each with its place; an empty list if it is right."""
    checker = Checker(profile)
    checker.run()
    return checker.complaints


# --- totals, to compare with other readers ---

def entry(profile, label):
    """Value of an entry of meta.extra; None if there is none."""
    for group in profile["meta"]["extra"]:
        for e in group["entries"]:
            if e["label"] == label:
                return e["value"]
    return None


def _function_lists(profile):
    """For each stack the set of its functions, and its own function."""
    shared = profile["shared"]
    frames = shared["frameTable"]["func"]
    sets, own = [], []
    for i, (frame, offset) in enumerate(zip(shared["stackTable"]["frame"],
                                            shared["stackTable"]["prefixOffset"])):
        func = frames[frame]
        above = sets[i - offset] if offset else frozenset()
        sets.append(above if func in above else above | {func})
        own.append(func)
    return sets, own


def function_key(profile, func):
    """Name, file and line: means the same in every part of a split file."""
    shared = profile["shared"]
    table = shared["funcTable"]
    source = table["source"][func]
    file = None if source is None else shared["sources"]["filename"][source]
    return (shared["stringArray"][table["name"][func]],
            None if file is None else shared["stringArray"][file], table["lineNumber"][func])


def thread_totals(profile, thread, lists=None):
    """{function row: (self, total)} in whole ns, recursion counted once."""
    sets, own = lists or _function_lists(profile)
    by_stack = {}
    samples = thread["samples"]
    for stack, weight in zip(samples["stack"], samples["weight"]):
        if stack is not None:
            by_stack[stack] = by_stack.get(stack, 0) + round(weight * 1e6)
    result = {}
    for stack, weight in by_stack.items():
        for func in sets[stack]:
            mine, total = result.get(func, (0, 0))
            result[func] = (mine + (weight if func == own[stack] else 0), total + weight)
    return result


def totals(profile):
    """{(pid, tid): {function key: (self, total)}} in whole ns."""
    lists = _function_lists(profile)
    result = {}
    for thread in profile["threads"]:
        rows = result.setdefault((thread["pid"], thread["tid"]), {})
        for func, (mine, total) in thread_totals(profile, thread, lists).items():
            key = function_key(profile, func)
            old = rows.get(key, (0, 0))
            rows[key] = (old[0] + mine, old[1] + total)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--totals", action="store_true", help="print self and total times")
    parser.add_argument("files", nargs="+", metavar="FILE")
    args = parser.parse_args()
    wrong = 0
    for path in args.files:
        try:
            profile = load(path)
            complaints = check(profile)
        except (Broken, OSError) as e:
            complaints = [str(e)]
        wrong += bool(complaints)
        for complaint in complaints:
            print(f"{path}: {complaint}")
        if not complaints:
            print(f"{path}: fine")
        if args.totals and not complaints:
            for (pid, tid), rows in totals(profile).items():
                print(f"pid {pid} tid {tid}")
                for key, (mine, total) in sorted(rows.items(), key=lambda r: -r[1][0])[:20]:
                    print(f"  {mine / 1e6:12.6f} {total / 1e6:12.6f}  {key[0]!a} {key[1]!a}:{key[2]}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
