"""usage: odd_names.py OUT: calls functions with names of all sorts once each; writes [[name, qualname, file, line]] to OUT."""
import json
import sys
import types

NAMES = ["plain", "x" * 100000, "x" * 99999 + "y", "y" + "x" * 99999, "x" * 50000 + "m" + "x" * 49999,
         "\u00e4\u00f6" * 40000, "\U0001f40d" * 30000, "\U0001f40d", "\ud800", "\udfff\ud800 reversed", "\udcff\udcfe",
         "\u202eright to left\u202c", "\u2066isolate\u2069", "a\0b", "a\0c", "a", "\0", "\x1b[31mred\x1b[0m", "\x07\x08\x0c", "two\nlines", "tab\tbed",
         "\r\x1b[2K", "\x9b31m", "\x80\x9f", "\x7f", "\\x1b", "quote\"quote'", "semi;colon", "</script>", "\ufeff", "\u2028\u2029",
         "%s%n%d", "spaces  here ", "\x1b]52;c;aGk=\x07", "\x1b]8;;x\x1b\\", "[unreadable]", "<module>", "\u0130\u0131",
         "e\u0301", "\u00e9", "\xff", "\u0100", "\uffff", "\U0010ffff", "z" * 4096, "z" * 4097, "z" * 4095, "z" * 65, "z" * 64, "z" * 63, "z" * 513,
         "\u0416" * 300, "\u0416" * 3000, "q" * 4096 + "1", "q" * 4096 + "2"]
FILES = ["file.py", "\udcff\udcfe\x1b[31mevil.py", "f" * 100000 + "1", "f" * 100000 + "2", "new\nline.py", "nul\0.py", "\u202efile.py",
         "/\ud83d/half.py"]


def code():
    return 1


def renamed(co, name, file, line, qualname):
    if hasattr(co, "replace"):
        more = {"co_qualname": qualname} if hasattr(co, "co_qualname") else {}
        return co.replace(co_name=name, co_filename=file, co_firstlineno=line, **more)
    return types.CodeType(co.co_argcount, co.co_kwonlyargcount, co.co_nlocals, co.co_stacksize, co.co_flags, co.co_code, co.co_consts,
                          co.co_names, co.co_varnames, file, name, line, co.co_lnotab, co.co_freevars, co.co_cellvars)


made = []
for i, name in enumerate(NAMES):
    file = FILES[i % len(FILES)]
    qualname = "outer.<locals>." + name
    f = types.FunctionType(renamed(code.__code__, name, file, 1000000 + i, qualname), {})
    co = f.__code__
    made.append([co.co_name, getattr(co, "co_qualname", co.co_name), co.co_filename, co.co_firstlineno])
    f()
with open(sys.argv[1], "w") as out:
    json.dump(made, out)
