"""usage: leafs.py N [STATUS]: calls leaf N times, copies stdin to stdout, exits with STATUS."""
import sys


def leaf(n):
    return n


for i in range(int(sys.argv[1])):
    leaf(i)
sys.stdout.write(sys.stdin.read())
sys.stdout.flush()
sys.exit(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
