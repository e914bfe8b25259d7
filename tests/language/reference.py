"""Makes the reference data of tests/language with the real gin-config.

    pip install gin-config==0.5.0
    gimlet gin schema > schema.json && python tests/language/reference.py schema.json

Made with gin-config 0.5.0 on Python 3.11 (later Pythons tokenize stray characters differently).
Writes accept.json, values.json, derived.json and config_str/*.golden beside this file.
"""

import contextlib
import importlib.util
import json
import pathlib
import pprint
import random
import subprocess
import sys
import types

import gin
from gin import config_parser

HERE = pathlib.Path(__file__).parent

# Texts whose meaning (or refusal) must be that of gin-config.
TEXTS = [
    # Statements.
    "a.b = 1", "a = 1", "s/a = 1", "s/t/a.b.c = 1", "a.b=1", "a.b   =   1", "_a1.b_ = 1",
    "class.def = 1", "None = 1", "import = 1", "from.x = 1", "include.x = 1", "import.a = 1",
    "é.b = 1", "aé.bü = 1", "a.b = 1 # x", "# x", "", "\n\n", "a.b = 1\r\nc.d = 2\r\n",
    "a . b = 1", "a. b = 1", "a .b = 1", "s / a.b = 1", "s/ a.b = 1", "s//a.b = 1", "/a.b = 1",
    "s/a. = 1", ".a = 1", "a..b = 1", "a.b/c.d = 1", "a/b.c/d.e = 1", "1a.b = 1", "a-b.c = 1",
    "a.b == 1", "a.b := 1", "a.b += 1", "a.b: int = 1", "a.b = c = 1", "a.b = 1; c.d = 2",
    "a.b = 1 c.d = 2", "a.b", "a.b =", "= 1", "a.b = # x", "%a = 1", "@a.b = 1", "'a' = 1",
    "a.b = \\\n  1", "a.b \\\n = 1", "a\\\n.b = 1", "a.b = \n1", "a.b = \\ \n1", "a.b = 1 \\\n",
    "a.b = 1, 2", "a.b = 1,", "a.b = (1\n,\n2)", "a.b = [ # x\n 1, # y\n 2 # z\n]",
    "a.b = 1\n  c.d = 2\n    e.f = 3\n", "  a.b = 1\n  c.d = 2\n", "  a.b = 1\n c.d = 2\n",
    "\ta.b = 1\n        c.d = 2\n", "a.b = [\n1,\n  2,\n]\nc.d = 1",
    # Blocks.
    "a:\n  b = 1", "a:\n  b = 1\n  c = 2\nd.e = 3", "s/a.x:\n b = 1\n", "a:\n  b = 1\n\n  # x\n  c = 2",
    "a:\n# x\n  b = 1\n # y\n  c = [\n1]\n", "a: # x\n  b = 1", "a :\n  b = 1", "a:\n\tb = 1",
    "a:", "a:\nb = 1", "a:\n", "a: b = 1", "a:\n  b = 1\n    c = 2", "a:\n  b = 1\n c = 2",
    "a:\n  b.c = 1", "a:\n  s/b = 1", "a:\n  b:\n    c = 1", "a:\n  import x", "a:\n  include 'x'",
    "  a:\n    b = 1\n  c = 2", "  a:\n    b = 1\nc = 2", "a:\n  b = 1\nc:\n  d = 2", "a\n:\n  b = 1",
    "a:\n  b = (1,\nc\n)", "a:\n\n\n  b = 'x'\n\n\n", "a:\n  b = \\\n1\n  c = 2", "a:\n  b", "a:\n  b = 1 2",
    # Imports and includes.
    "import a", "import a.b.c", "import a as b", "import a.b as c", "from a import b",
    "from a.b import c", "from a import b as c", "from . import a", "from a import *",
    "from a import b, c", "import a, b", "import", "import a.", "from a", "from a import",
    "import a as", "import a b", "import \\\n a", "import a # x", "import a;", "import a as b.c",
    "from a import b.c", "import 'a'", "from .a import b",
    "include 'a'", "include \"a\" 'b'", "include r'a'", "include '''a'''", "include 'a' # x",
    "include", "include a", "include ('a')", "include %a", "include b'a'", "include 'a' + 'b'",
    "include 'a', 'b'", "include 'a'\n", "include \\\n 'a'", "include 1", "include a.gin",
    # Numbers.
    *[f"a.b = {n}" for n in """0 1 -1 - 1 1_000 1__0 1_ _1 007 000 0_0 00_0 0x1F 0XfF 0o17 0O17 0b101 0B1
      0x 0o8 0b2 0x_1f 0b_1 0x1_F -0x1F 123456789012345678901234567890 -170141183460469231731687303715884105728
      1. .5 1.5 -1.5 1e3 1E3 1e+3 1e-3 1.e3 .5e3 1_0.0_1 1e1_0 1_.0 1._0 1e_1 1e 1e+ 1.5.5 1e999 -1e999 007.5 00e1
      -0 -0.0 0.1 +1 --1 -+1 ~1 1+2 1-2 1*2 2**10 1/2 1//2 1%2 (1) ((1)) (-1) (-\n1) (1,) () (1,2) (1,2,) (,) (1,,2)
      1x 1_x 0xg 1if """.split()],
    "a.b = - 1", "a.b = 1 + 2", "a.b = (1 + 2)", "a.b = -(1)", "a.b = 1 .5",
    # Constants and bare words.
    "a.b = None", "a.b = True", "a.b = False", "a.b = true", "a.b = null", "a.b = adam", "a.b = inf",
    "a.b = nan", "a.b = -inf", "a.b = -True", "a.b = -None", "a.b = a.b.c", "a.b = NoneType",
    "a.b = True.x", "a.b = None()", "a.b = set()", "a.b = dict(a=1)", "a.b = lambda: 1", "a.b = /a/b",
    "a.b = gs://a/b", "a.b = not True", "a.b = 1 if True else 2", "a.b = ...",
    # Strings.
    *[f"a.b = {s}" for s in r"""
      ''|""|'a'|"a"|'a"b'|"a'b"|'a\'b'|"a\"b"|'a' 'b'|'a'"b"|'a' "b" r'\c'|'' "a"|'a' ""|'''a'''|'''a'b'''|'''a''b'''
      '''a
b'''|'a\
b'|'\a\b\f\n\r\t\v\\'|'\0\12\123\1234\8'|'\x41\u00e9\U0001F600'|'\d\.'|r'\d\n\''|R"\x"|u'a'|U'a'|b'a'|B'\xff'|rb'\x'|bR'\x'|Br"a"
      '\x4'|'\xg0'|'\u12'|'\U00110000'|f'|ub'a'|ur'a'|x'a'|b'é'|'é'|'日本'|'😀'|'a' b'c'|b'a' b'c'|b'\400'|b'\u1234'
      'a|"a|'''a|'a"|'a'b'|'a' 'b|('a'
 'b')|('a' 'b',)|'a' \
 'b'|-'a'|'a' + 'b'|'a' * 2|'a'[0]|'a'.b|('a')|"""
      .replace("\n      ", "|").split("|") if s],
    "a.b = 'a'\n'b'", "a.b = 'a\tb'", "a.b = '''a\r\nb'''", "a.b = 'a' # 'b'", "a.b = '#'", "a.b = \"\"\"a\"b\"\"\"",
    # Containers.
    *[f"a.b = {c}" for c in """[] [1] [1,] [1,2] [,] [1,,2] [1,2,,] [[1],[2,[3]]] [()] (()) ((),) ([1],) [1 2]
      {} {1:2} {1:2,} {'a':1,'b':[1]} {,} {1} {1,2} {1:} {:1} {1:2:3} {1:2,,} {1:2,1:3} {1:2,1.0:3,True:4} {(1,2):3}
      {None:1} {b'a':1} {@a:1} {%a:1} {@a():@b()} [1:2] (1:2) [1;2] [1=2] [a=1] {a:1} {'a'=1} [*a] {**a} [1for]
      [1 ) (1] {1] [1 [[1] 1] [1]] [[[[1]]]] {'a':{'b':{'c':1}}} [True,None,False] [-1,-2.5] ['a','b',] ['a''b','c']
      [1][0] [1]+[2] {1:2}[1] ().a []*2""".replace("1 )", "1)").split()],
    "a.b = [1 2]", "a.b = [1, 2", "a.b = [1, 2)", "a.b = [\n\n1\n,\n\n2\n]", "a.b = {\n'a'\n:\n1\n}", "a.b = [1,\n# x\n2]",
    "a.b = ['a'\n'b']", "a.b = [\n  (1, 2),\n  {'a': @f(), },\n]", "a.b = [1 # ]\n]", "a.b = {1: 2, 'a': 3, 1: 4, 'b': 5, 'a': 6}",
    "a.b = {[1]: 2}", "a.b = {(1, [2]): 2}", "a.b = [1, 2]]", "a.b = (1, 2))", "a.b = }", "a.b = [1, 2 3]", "a.b = [x for x in y]",
    # References and macros.
    *[f"a.b = {r}" for r in """@f @f() @s/f @s/f() @s/t/f() @a.b.c @a.b/c @a.b/c.d() @f(x=1) @f(1) @f()() @f().x @f[0] @ @() @1 @'a'
      @f. @.f @s/ @/f @s//f @f( @f) @@f +@f() @f+1 @None %a %s/a %a.b %s/a.b %gin.REQUIRED %a() % %% %1 %a+1 %a.
      %s/ %'a' [@f,@g()] (%a,) {'a':@f()} [@f(),%a] @class""".split()],
    "a.b = @ f", "a.b = @f ()", "a.b = @f( )", "a.b = % a", "a.b = @s / f", "a.b = @s/ f", "a.b = @f . g", "a.b = [@f\n(), 1]",
    "a.b = @f\n()", "a.b = [@f(\n)]", "a.b = @f() @g()", "a.b = %a %b", "a.b = %a / 2", "a.b = %a * %b", "a.b = -%a / 2", "a.b = @\\\nf",
    "a.b = 1j", "a.b = -1.5J", "a.b = 123456789012345678901234567890123456789012", r"a.b = '\N{BULLET}\N{LATIN SMALL LETTER A}'",
    r"a.b = '\N{NO SUCH NAME}'", r"a.b = '\N'", "a.b = " + "9" * 4300, "a.b = " + "9" * 4301,
    # Characters.
    "\ufeffa.b = 1", "a.b = “x”", "a.b = `x`", "a.b\u00a0= 1", "a.b = 1\u00a0", "a.b = $X", "a.b = ?", "a.b = 1 !", "a.b = \x00",
    "a.b = 1\x0c", "\x0ca.b = 1", "a.b = 1 \t ", "a.b = '\x00'", "a.b = –1", "a.b = 1\\", "\\\na.b = 1", "a.b = 1\n\\\n", "a.b\t=\t1",
]

# Texts on which Gimlet means to differ, and why.
DIFFERENT = {
    "a.b = -%a": "gin-config drops the sign",
    "a.b = -@f()": "gin-config drops the sign",
    "a.b = f'a'": "f-strings are Gimlet's own",
    "a.b = F'{a}'": "f-strings are Gimlet's own",
    "a.b = fr'{a}/b' 'c'": "f-strings are Gimlet's own",
    "a.b = %(a * 2)": "arithmetic is Gimlet's own",
    "a.b = '' 'a'": "gin-config glues the texts to `'''a'` before it reads them",
    'a.b = "" "a"': "gin-config glues the texts before it reads them",
    r"a.b = '\ud800'": "no surrogates in UTF-8",
    "a.b = " + "[" * 201 + "]" * 201: "nesting is bounded",
}


class Delegate(config_parser.ParserDelegate):
    """Prints references as they are written."""

    def configurable_reference(self, scoped_name, evaluate):
        return Text(f"@{scoped_name}" + ("()" if evaluate else ""))

    def macro(self, scoped_name):
        return Text(f"%{scoped_name}")


class Text(str):
    """A str whose repr is itself."""

    def __repr__(self):
        return str(self)


def meaning(text):
    """What gin-config reads, one line a statement; None where it refuses."""
    lines = []
    try:
        for s in config_parser.ConfigParser(text, Delegate()):
            if isinstance(s, config_parser.BindingStatement):
                lines.append(["bind", s.scope, s.selector, s.arg_name, repr(s.value)])
            elif isinstance(s, config_parser.BlockDeclaration):
                lines.append(["block", s.scope, s.selector])
            elif isinstance(s, config_parser.ImportStatement):
                lines.append(["import", s.format()])
            elif isinstance(s, config_parser.IncludeStatement):
                lines.append(["include", s.filename])
            else:
                raise AssertionError(s)
    except AssertionError:
        raise
    except Exception:  # gin-config lets errors of tokenize, ast and dict through.
        return None
    return lines


def accept():
    cases = [{"text": text, "meaning": meaning(text)} for text in TEXTS]
    for text, why in DIFFERENT.items():
        cases.append({"text": text, "meaning": meaning(text), "different": why})
    return cases


def random_value(rng, depth):
    words = ["a", "it's", 'say "hi"', "two words", "é\n", "tab\t", "\\", "日本語", "", "\x7f\u200b", "x" * 90, "word " * 30,
             "line one\nline two is longer than the other ones\n" * 3, "\r\n\x1c \u2028", "no_blanks_" * 12]
    scalars = [lambda: rng.choice(words), lambda: rng.randrange(-10**6, 10**6), lambda: rng.uniform(-1, 1),
               lambda: 10.0 ** rng.randrange(-20, 20), lambda: rng.choice([None, True, False]),
               lambda: bytes(rng.randrange(256) for _ in range(rng.randrange(60)))]
    if depth == 0 or rng.random() < 0.3:
        return rng.choice(scalars)()
    size = rng.randrange(6)
    items = [random_value(rng, depth - 1) for _ in range(size)]
    kind = rng.randrange(3)
    if kind == 0:
        return items
    if kind == 1:
        return tuple(items)
    keys = [rng.choice([rng.choice(words), rng.randrange(100), rng.random()]) for _ in items]
    return dict(zip(keys, items))


def values():
    rng = random.Random(0)
    made = [random_value(rng, depth % 5) for depth in range(100)]
    return [{"repr": repr(v), "pformat": [[w, pprint.pformat(v, width=w)] for w in (76, 30)]} for v in made]


# What expressions over MACROS come to; a mistake is told by its type.
MACROS = {"A": 7, "B": -3, "C": 0.1, "D": 1e999, "E": 10**30, "T": "a'b", "Y": True, "N": None, "Z": 0}
EXPRESSIONS = [
    "7 // 2", "-7 // 2", "7 % B", "-7 % 3", "6 / 2", "7 / 2", "2 - 3 - 4", "2 - (3 - 4)", "1 + 2 * 3", "-(1 + 2)", "--A",
    "A - -B", "-A * -B", "A % 4 % 2", "8 // 3 * 2", "2 * 8 // 3", "1 // C", "1 % C", "-1 // C", "C * 3", "-(0 * C)", "E * E",
    "E / 10", "-E / 7", "E / -E", "3 / E", "0 / B", "(E * E + 1) / (E * 3)", "9007199254740993 / 1", "36028797018963973 / 4", "1 / (E * E * E)", "E + C", "Y + Y", "-Y", "D - 1", "0xff + 0b1 + 1_000", "1e3", ".5 + 1.", "1 / 0", "1 // Z", "1.0 % Z", "T + 1", "-N",
    "1 + N", "A + U",
]
TEXTS_OF = ["", "a", "{A}", "{A}/{B}", "{A + B * 2}", "{{}}", "{{{A}}}", "{C}{D}{-D}", "{E}", "{T}", "{Y} {N}", "{1 / 4}", "{ A }", "{1 // Z}"]


def derived():
    rng = random.Random(0)

    def expression(depth):
        if depth == 0:
            return rng.choice(["A", "B", "C", "Y", str(rng.randrange(20)), repr(rng.randrange(1, 80) / 8)])
        if rng.random() < 0.15:
            return "-" + expression(0)
        inner = [f"({e})" if rng.random() < 0.5 else e for e in (expression(depth - 1), expression(rng.randrange(depth)))]
        return f" {rng.choice(['+', '-', '*', '/', '//', '%'])} ".join(inner)

    def result(text):
        try:
            return repr(eval(text, dict(MACROS)))
        except Exception as error:
            return type(error).__name__

    made = EXPRESSIONS + [expression(depth % 4 + 1) for depth in range(200)]
    cases = [(f"%({e})", e) for e in made] + [(f"f{t!r}", f"f{t!r}") for t in TEXTS_OF]
    return [[text, result(python)] for text, python in cases]


def register(module, name, parameters):
    """A configurable that takes the parameters, importable from a module of that name."""
    scope = {"__name__": module}
    exec(f"def {name}({', '.join(p + '=None' for p in parameters)}): pass", scope)
    parts = module.split(".")
    for i in range(1, len(parts) + 1):
        path = ".".join(parts[:i])
        if path not in sys.modules:
            sys.modules[path] = types.ModuleType(path)
            if i > 1:
                setattr(sys.modules[".".join(parts[: i - 1])], parts[i - 1], sys.modules[path])
    setattr(sys.modules[module], name, scope[name])
    return scope[name]


# The same as in config_str.rs.
CONFIGURABLES = [
    ("lib.models", "Model", ["emb_dim", "module", "vocabulary", "Rate"]),
    ("lib.models", "Encoder", ["layers", "scale", "names"]),
    ("lib.other.models", "Encoder", ["layers"]),
    ("lib.train", "train", ["model", "steps", "options", "_hidden", "text", "seed"]),
    ("solo", "Vocabulary", ["path", "extra_ids"]),
    ("models", "Encoder", ["layers"]),
]


def config_strings():
    for module, name, parameters in CONFIGURABLES:
        function = register(module, name, parameters)
        gin.external_configurable(function, name, module)
    for path in sorted((HERE / "config_str").glob("*.gin")):
        text = path.read_text()
        gin.clear_config()
        gin.parse_config(text, skip_unknown=False)
        printed = gin.config_str()
        gin.clear_config()
        gin.parse_config(printed)
        assert gin.config_str() == printed, path
        path.with_suffix(".golden").write_text(printed)


def literal(data):
    """The default that a schema file gives; an object that gin cannot write for an opaque one."""
    if isinstance(data, list):
        return [literal(item) for item in data]
    if not isinstance(data, dict):
        return data
    ((key, value),) = data.items()
    return {
        "$tuple": lambda: tuple(map(literal, value)),
        "$dict": lambda: {literal(k): literal(v) for k, v in value},
        "$float": lambda: float(value),
        "$int": lambda: int(value),
        "$opaque": object,
    }[key]()


class Stubs:
    """Functions that do nothing but the calls which a schema file declares."""

    def __init__(self, schema):
        self.functions, self.later = {}, []
        # A run imports one of the networks of the same names.
        others = ("gin.", "t5x.examples.scalable_t5.")
        entries = [e for e in schema["configurables"] if not e["selector"].startswith(others)]
        names = [entry["selector"] for entry in entries]
        for entry in entries:
            self.add(entry, names)
        for name, value in schema.get("constants", {}).items():
            gin.constant(name, literal(value))

    def add(self, entry, names):
        module, name = entry["selector"].rsplit(".", 1)
        defaults = {p["name"]: literal(p["default"]) if "default" in p else object() for p in entry.get("parameters", [])}
        scope = {"defaults": defaults, "body": lambda arguments: self.run(entry, arguments), "__name__": module}
        parameters = ", ".join(f"{p}=defaults[{p!r}]" for p in defaults) + (", **kwargs" if entry.get("kwargs") else "")
        exec(f"def {name}({parameters}):\n  return body(locals()) or {name}", scope)
        configurable = gin.external_configurable(
            scope[name], name, module, allowlist=entry.get("allowlist"), denylist=entry.get("denylist"))
        self.functions[entry["selector"]] = configurable
        if module in names:  # A method, which gin recognizes by its class.
            known = gin.config._REGISTRY[entry["selector"]]
            gin.config._REGISTRY[entry["selector"]] = known._replace(is_method=True)

    def run(self, entry, arguments):
        for parameter in entry.get("parameters", []):
            if "call" in parameter:
                value = arguments[parameter["name"]]
                for function in value if isinstance(value, (list, tuple)) else [value]:
                    if callable(function) and hasattr(function, "__wrapped__"):
                        self.call(function, parameter["call"])
        for call in entry.get("calls", []):
            self.call(self.functions[call["selector"]], call)

    def call(self, function, site):
        def run():
            with contextlib.ExitStack() as stack:
                for scope in site.get("enters", []):
                    stack.enter_context(gin.config_scope(scope))
                function(**{name: None for name in site.get("supplies", [])})

        if site.get("later"):
            self.later.append(run)
        else:
            run()

    def operative(self, root):
        self.functions[root]()
        while self.later:
            self.later.pop()()
        return gin.operative_config_str()


ROOTS = {"flaxformer": "t5x.train.train", "mesh": "mesh_tensorflow.transformer.utils.run", "t5x": "t5x.train.train"}


FARMS = ["farm", "field"]


def schemas(name, own):
    """schemas/name.*golden: what stubs are configured with; `own` is what `gimlet gin schema` prints."""
    folder = HERE / "schemas"
    schema = folder / f"{name}.json"
    stubs = Stubs(json.loads((schema if schema.exists() else own).read_text()))
    text = (folder / f"{name}.gin").read_text()
    for line in text.splitlines():
        if line.startswith("import "):
            register(line.split()[1], "unused", [])
    gin.parse_config(text)
    gin.finalize()
    (folder / f"{name}.config.golden").write_text(gin.config_str())
    (folder / f"{name}.golden").write_text(stubs.operative(ROOTS[name]))


def zoo():
    """schemas/zoo.json as docs/gin.md makes it, and goldens of the project itself."""
    folder = HERE / "schemas"
    sys.path.insert(0, str(folder))
    page = (HERE / "../../docs/gin.md").read_text()
    script = page.split("```python file=dump_schema.py\n")[1].split("```")[0]
    with open(folder / "zoo.json", "w") as out, contextlib.redirect_stdout(out):
        exec(script, {})
    gin.parse_config_file(folder / "zoo.gin")
    gin.finalize()
    (folder / "zoo.config.golden").write_text(gin.config_str())
    sys.modules["zoo"].open_zoo()
    (folder / "zoo.golden").write_text(gin.operative_config_str())


def farm(name):
    """schemas/name.json as docs/gin.md makes it, once gin has read the file, and what gin prints of it."""
    folder = HERE / "schemas"
    sys.path.insert(0, str(folder))
    gin.add_config_file_search_path(str(folder))
    module = importlib.import_module("farm")
    register("t5.data.mixtures", "unused", [])
    own, sys.modules["__main__"] = sys.modules["__main__"], module
    gin.parse_config_file(folder / f"{name}.gin")
    imports = gin.config._IMPORTS
    gin.config._IMPORTS = sorted(imports, key=lambda s: s.format())  # Of one module, the first counts.
    printed = gin.config_str()
    gin.config._IMPORTS = imports
    page = (HERE / "../../docs/gin.md").read_text()
    script = page.split("```python file=dump_schema.py\n")[1].split("```")[0]
    with open(folder / f"{name}.json", "w") as out, contextlib.redirect_stdout(out):
        exec(script, {})
    gin.clear_config()
    gin.parse_config(printed)
    assert gin.config_str() == printed, name
    sys.modules["__main__"] = own
    (folder / f"{name}.config.golden").write_text(printed)


def main():
    def dump(name, data):
        lines = ",\n".join(json.dumps(entry, ensure_ascii=True) for entry in data)
        (HERE / name).write_text(f"[\n{lines}\n]\n")

    dump("accept.json", accept())
    dump("values.json", values())
    dump("derived.json", derived())
    config_strings()
    for name in [*ROOTS, "zoo", *FARMS]:  # Each in a process of its own: gin's registry is global.
        subprocess.run([sys.executable, __file__, sys.argv[1], name], check=True)


if __name__ == "__main__":
    if sys.argv[2:] == ["zoo"]:
        zoo()
    elif sys.argv[2:] and sys.argv[2] in FARMS:
        farm(sys.argv[2])
    elif len(sys.argv) > 2:
        schemas(sys.argv[2], pathlib.Path(sys.argv[1]))
    else:
        main()
