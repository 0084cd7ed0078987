"""ticks.py OUT SECONDS [PAUSE]: calls tick() again and again and keeps the time just before each call; another thread rests.
OUT gets the times, one per line, at the end, or when SIGTERM comes."""
import signal
import sys
import threading
import time

times = []


def leaf():
    return 1


def tick():
    return leaf()


def rest(event):
    event.wait()


def work(seconds, pause):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        times.append(time.monotonic())
        tick()
        if pause:
            time.sleep(pause)


def main():
    event = threading.Event()
    thread = threading.Thread(target=rest, args=(event,))
    thread.daemon = True
    thread.start()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    print("ready", flush=True)
    try:
        work(float(sys.argv[2]), float(sys.argv[3]) if len(sys.argv) > 3 else 0)
    finally:
        with open(sys.argv[1], "w") as out:
            out.writelines("%d\n" % (t * 1e9) for t in times)
        event.set()


main()
