# SPDX-License-Identifier: Apache-2.0
"""Draws a few milliseconds of a trace as an SVG, for pages that cannot hold a viewer.

usage: pyebpf convert trace.pyebpf -f ndjson -o - | stackchart.py --around FUNCTION [--nth 1] [--ms 4] > chart.svg

A box is a call, its width the time it took, below it what it called; the colours are those of the
Firefox Profiler's stack chart. The window begins shortly before the nth call of FUNCTION."""
import argparse
import html
import json
import sys

WIDTH, LEFT, ROW, GAP = 1000, 118, 17, 10
NARROWEST = 0.35  # of a pixel; what is narrower adds to its neighbour
COLOURS = {"user": "#ffd54d", "stdlib": "#8ac7ff", "other": "#d0d0d0"}
ENTER = {"call", "resume", "throw", "open"}


def category(file):
    if file.startswith("<"):
        return "other"
    return "stdlib" if "/lib/python3" in file and "-packages" not in file else "user"


def read(lines, around, nth, length_ns):
    """The events of one window: from shortly before `around` is entered on. Events before it only
    tell which frames are open."""
    stacks, start, kept = {}, None, []
    for line in lines:
        e = json.loads(line)
        if "tid" not in e:
            continue
        nth -= e["ev"] == "call" and e["name"] == around
        if start is None and nth == 0:
            start = e["ts_ns"] - length_ns // 20
            kept = [("open", start, tid, frame) for tid, stack in sorted(stacks.items()) for frame in stack]
        stack = stacks.setdefault(e["tid"], [])
        frame = (e.get("func", ""), e.get("file", ""))
        if e["ev"] in ENTER:
            stack.append(frame)
        elif e["ev"] != "gap" and stack:
            stack.pop()
        if start is not None:
            if e["ts_ns"] > start + length_ns:
                return start, kept
            kept.append(("enter" if e["ev"] in ENTER else "leave", e["ts_ns"], e["tid"], frame))
    sys.exit("the trace has no such call of %s with %d ns after it" % (around, length_ns))


def boxes(events, start, end):
    """{tid: [(depth, from, to, frame)]}"""
    done, open_ = {}, {}
    for kind, ts, tid, frame in events:
        stack = open_.setdefault(tid, [])
        if kind != "leave":
            stack.append((max(ts, start), frame))
        elif stack:
            since, what = stack.pop()
            done.setdefault(tid, []).append((len(stack), since, ts, what))
    for tid, stack in open_.items():
        for depth, (since, what) in enumerate(stack):
            done.setdefault(tid, []).append((depth, since, end, what))
    return {tid: sorted(rows) for tid, rows in done.items()}


def merged(rows, scale):
    """Calls too narrow to see become one box with their neighbours of the same function."""
    out = []
    for depth, since, to, frame in rows:
        last = out[-1] if out else None
        if last and last[0] == depth and last[3] == frame and \
                (since - last[2]) * scale < NARROWEST and (to - since) * scale < 2:
            out[-1] = (depth, last[1], to, frame)
        else:
            out.append((depth, since, to, frame))
    return [row for row in out if (row[2] - row[1]) * scale >= NARROWEST]


def box(x, y, width, frame):
    name, file = frame
    fill = COLOURS[category(file)]
    yield '<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s"/>' % (x, y, max(width - 0.3, 0.3), ROW - 1, fill)
    room = int((width - 6) / 6.3)
    if room >= 4:
        label = name if len(name) <= room else name[:room - 1] + "…"
        yield '<text x="%.1f" y="%d">%s</text>' % (x + 3, y + 12, html.escape(label))


def axis(y, length_ns, scale):
    step = next(s for s in (100000, 200000, 500000, 1000000, 2000000, 5000000) if length_ns / s <= 10)
    for at in range(0, length_ns + 1, step):
        x = LEFT + at * scale
        yield '<text x="%.1f" y="%d" fill="#666">%.1f ms</text>' % (x, y, at / 1e6)
        yield '<rect x="%.1f" y="%d" width="0.5" height="4" fill="#666"/>' % (x, y + 3)


def draw(tracks, start, length_ns):
    scale = (WIDTH - LEFT - 20) / length_ns
    body, y = list(axis(12, length_ns, scale)), 20
    for tid, rows in tracks:
        body.append('<text x="4" y="%d" font-weight="bold">thread %d</text>' % (y + 12, tid))
        shown = merged(rows, scale)
        for depth, since, to, frame in shown:
            body += box(LEFT + (since - start) * scale, y + depth * ROW, (to - since) * scale, frame)
        y += (max(row[0] for row in shown) + 1) * ROW + GAP
    head = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="monospace" font-size="10.5">'
    return "\n".join([head % (WIDTH, y), '<rect width="100%" height="100%" fill="#fff"/>', *body, "</svg>", ""])


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("--around", required=True)
    ap.add_argument("--nth", type=int, default=1)
    ap.add_argument("--ms", type=float, default=4)
    a = ap.parse_args()
    length_ns = int(a.ms * 1e6)
    start, events = read(sys.stdin, a.around, a.nth, length_ns)
    tracks = boxes(events, start, start + length_ns)
    sys.stdout.write(draw(sorted(tracks.items()), start, length_ns))


if __name__ == "__main__":
    main()
