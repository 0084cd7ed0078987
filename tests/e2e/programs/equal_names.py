"""Functions of one name, told apart by qualified name and line only."""


def outer1():
    def inner():
        return 1
    return inner()


def outer2():
    def inner():
        return 2
    return inner()


class A:
    def inner(self):
        return 3

    class B:
        def inner(self):
            return (lambda: 4)()


def inner():
    return outer1() + outer2()


def outer3():
    def inner(n):
        def inner(n):
            return n
        return inner(n)
    return inner(5)


for _ in range(10):
    inner()
for _ in range(20):
    A().inner()
for _ in range(30):
    A.B().inner()
for _ in range(40):
    outer3()
