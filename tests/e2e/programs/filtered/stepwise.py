"""stepwise.py: works, and waits for a line before each further step. Prints how many calls and returns of its own it made."""
import json
import sys

done = 0


def leaf():
    return 1


def work(rounds):
    global done
    for _ in range(rounds):
        leaf()
        json.loads("[1]")
    done += rounds + 1
    print("ready", flush=True)
    sys.stdin.readline()


work(2000)
work(40000)
work(1000)
print(2 * (done + 1), flush=True)
