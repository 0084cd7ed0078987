"""usage: told_of_ends.py: a profile function gives the GIL away while it is told that the outermost frame of a thread returns, or yields."""
import _thread
import sys
import threading
import time

THREADS = 20


def profile(frame, event, _):
    if event == "return" and frame.f_back is None:
        before()
        time.sleep(0.002)
        behind()
        TOLD.append(frame)


def before():
    pass


def behind():
    inner()


def inner():
    pass


def busy():
    while not DONE.is_set():
        inner()
        time.sleep(0.0005)


def start():
    sys.setprofile(profile)
    before()


def generate():
    sys.setprofile(profile)
    before()
    yield


DONE, TOLD = threading.Event(), []
OTHER = threading.Thread(target=busy)
OTHER.start()
for _ in range(THREADS):
    _thread.start_new_thread(start, ())
    time.sleep(0.01)
WAIT = [generate() for _ in range(THREADS)]
for g in WAIT:
    _thread.start_new_thread(next, (g,))
    time.sleep(0.01)
while len(TOLD) < 2 * THREADS:
    time.sleep(0.01)
DONE.set()
OTHER.join()
