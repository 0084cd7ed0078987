"""What a frame held is freed when it ends, and has a finalizer: that is the caller's of a frame that is no more."""

def f(n):
    return n
class Held:
    def __del__(self):
        f(1)
class Base:
    def __init__(self, n):
        held = Held()
        f(n)
        if n % 5 == 4:
            raise ValueError
class Derived(Base):
    def __init__(self, n):
        held = Held()
        super().__init__(n)
def make(n):
    try:
        return Derived(n)
    except ValueError:
        return None
def generate():
    kept = Base(0)
    yield Held()
    yield Base(1)
def main():
    for n in range(40):
        make(n)
    for _ in range(20):
        list(generate())
        [Base(n) for n in range(3)]
main()
