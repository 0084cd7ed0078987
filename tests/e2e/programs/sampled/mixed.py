# SPDX-License-Identifier: Apache-2.0
"""Python calls C calls Python calls C, which runs without the interpreter's lock: mixed.c, built into the folder argv[1]."""
import sys

sys.path.insert(0, sys.argv[1])
import mixed


class Box:
    def __init__(self):  # a shim of the interpreter's own lies below it
        mixed.outer(callback)


def inner():
    mixed.spin(float(sys.argv[2]))


def callback():
    inner()


def top():
    Box()


top()
