"""usage: subinterpreters.py: runs code in subinterpreters, one after the other and in threads; 0 if there are none."""
import sys
import threading

try:
    import _interpreters as interpreters
except ImportError:
    try:
        import _xxsubinterpreters as interpreters
    except ImportError:
        print(0)
        sys.exit()
run = getattr(interpreters, "exec", None) if sys.version_info >= (3, 13) else None
run = run or interpreters.run_string
CODE = """
def sub_leaf(n):
    return n

def sub_gen(n):
    for i in range(n):
        yield sub_leaf(i)

def sub_work():
    for _ in range(10):
        sum(sub_gen(5))

sub_work()
"""


def once():
    i = interpreters.create()
    for _ in range(2):
        run(i, CODE)
    interpreters.destroy(i)
    after()


def after():
    pass


for _ in range(5):
    once()
threads = []
if sys.version_info >= (3, 12):
    threads = [threading.Thread(target=once) for _ in range(4)]
for t in threads:
    t.start()
for t in threads:
    t.join()
print(2 * (5 + len(threads)))
