"""timed.py OUT [SECONDS]: measures handle() and steps() itself; other functions have the same names. OUT gets what it has seen, as
JSON: calls of handle() and their times, calls under it, how often steps() ran."""
import json
import sys
import threading
import time

lock = threading.Lock()
seen = {"handle": [], "under": 0, "outer": 0, "recursive": 0, "steps": 0, "runs": 0, "raised": 0}
local = threading.local()


def leaf():
    return 1


def inner(n):
    return leaf() + (inner(n - 1) if n else 0)


def handle(n):
    """Calls 2 n + 3 functions, and itself if n is odd."""
    inner(n)
    if n % 2:
        handle(n - 1)
    elif n % 6 == 0:
        raise KeyError(n)
    elif n == 2:
        time.sleep(0.02)
    return leaf()


def steps(n):
    for i in range(n):
        yield leaf()


class Other:
    def handle(self):
        leaf()

    @staticmethod
    def run():
        leaf()


def request(n):
    leaf()
    raised = False
    begin = time.monotonic()
    try:
        handle(n)
    except KeyError:
        raised = True
    took = time.monotonic() - begin
    with lock:
        seen["handle"].append(took)
        seen["outer"] += 1
        seen["recursive"] += n % 2
        seen["raised"] += (1 + n % 2) * raised
        # each handle(m): inner() m + 1 times with a leaf() each, and a leaf() if it returns
        seen["under"] += sum(2 * (m + 1) + (not raised) for m in {n, n - n % 2})
    Other().handle()
    Other.run()


def generate():
    for n in (0, 3, 5):
        for _ in steps(n):
            leaf()
        with lock:
            seen["steps"] += 1
            seen["runs"] += n + 1


def main(rounds):
    for n in range(rounds):
        request(n % 7)
        generate()


def run(seconds=0.0):
    end = time.monotonic() + seconds
    while True:
        threads = [threading.Thread(target=main, args=(21,)) for _ in range(2)]
        for thread in threads:
            thread.start()
        main(14)
        for thread in threads:
            thread.join()
        if time.monotonic() >= end:
            break


print("ready", flush=True)
run(float(sys.argv[2]) if len(sys.argv) > 2 else 0)
with open(sys.argv[1], "w") as out:
    json.dump(seen, out)
