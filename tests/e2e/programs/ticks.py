"""ticks.py OUT SECONDS [PAUSE|cpu]: calls tick() again and again and keeps the time just before each call; another thread rests.
OUT gets the times, doubles, at the end, or when SIGTERM comes. cpu: SECONDS of its own CPU time."""
import array
import signal
import sys
import threading
import time

times = array.array("d")


def leaf():
    return 1


def tick():
    return leaf()


def rest(event):
    event.wait()


def work(seconds, pause):
    clock = time.process_time if pause == "cpu" else time.monotonic
    pause = 0 if pause == "cpu" else float(pause)
    end = clock() + seconds
    while clock() < end:
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
        work(float(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else 0)
    finally:
        with open(sys.argv[1], "wb") as out:
            times.tofile(out)
        event.set()


main()
