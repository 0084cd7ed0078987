"""pkg.inner"""


def numbers(n):
    for i in range(n):
        yield i


async def nested(n, call):
    if n:
        call()
        return await nested(n - 1, call)
    return 0


class Thing:
    def __init__(self, call):
        self.call = call
        self.made = call()

    def use(self):
        return self.call()

    def __del__(self):
        self.call()
