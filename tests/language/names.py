"""Makes names.json, the characters that names may have, with the real gin-config.

    pip install gin-config==0.5.0 && python tests/language/names.py

Made with gin-config 0.5.0 on Python 3.11 (Unicode 14). Ranges of code points of the Basic
Multilingual Plane: those of `name`, and those that this Python's Unicode does not know.
"""

import json
import pathlib
import unicodedata

from gin import config_parser


class Delegate(config_parser.ParserDelegate):
    def configurable_reference(self, scoped_name, evaluate):
        return scoped_name

    def macro(self, scoped_name):
        return scoped_name


def is_name(text):
    """Whether a key, a scope, an argument and a reference may be called so."""
    try:
        [s] = config_parser.ConfigParser(f"{text}/{text}.{text} = @{text}", Delegate())
    except Exception:  # gin-config lets errors of tokenize through.
        return False
    return (s.scope, s.selector, s.arg_name, s.value) == (text, text, text, text)


def ranges(holds):
    out = []
    for code in range(0x10000):
        if not 0xD800 <= code <= 0xDFFF and holds(chr(code)):
            if out and out[-1][1] == code - 1:
                out[-1][1] = code
            else:
                out.append([code, code])
    return out


reference = {
    "first": ranges(is_name),
    "rest": ranges(lambda c: is_name("a" + c) and is_name("a" + c + "b")),
    "unassigned": ranges(lambda c: unicodedata.category(c) == "Cn"),
}
path = pathlib.Path(__file__).with_name("names.json")
path.write_text("{\n" + ",\n".join(f'"{k}": {json.dumps(v)}' for k, v in reference.items()) + "\n}\n")
