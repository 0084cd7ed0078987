"""usage: fresh.py N [THREADS]: each thread makes N functions by exec and lambda, calls each once and drops it.

No two have both name and line in common; all have the file name "<made>". Prints nothing.
"""
import ast
import sys
import threading


def one_def(k, i):
    line = 1 + (i * 7919 + k) % 1000003
    tree = ast.parse("def f_%d_%d(): return 1" % (k, i))
    node = tree.body[0]
    for at in (node, node.body[0], node.body[0].value):
        at.lineno = at.end_lineno = line
    space = {}
    exec(compile(tree, "<made>", "exec"), space)
    space["f_%d_%d" % (k, i)]()


def one_lambda(k, i):
    line = 1 + k * 1000000 + i
    tree = ast.parse("lambda: 1", mode="eval")
    for at in (tree.body, tree.body.body):
        at.lineno = at.end_lineno = line
    eval(compile(tree, "<made>", "eval"))()


def work(k, n):
    for i in range(n // 2):
        one_def(k, i)
        one_lambda(k, i)


count = int(sys.argv[2]) if len(sys.argv) > 2 else 0
threads = [threading.Thread(target=work, args=(k + 1, int(sys.argv[1]))) for k in range(count)]
for t in threads:
    t.start()
for t in threads:
    t.join()
if not threads:
    work(0, int(sys.argv[1]))
