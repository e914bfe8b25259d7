"""Makes statements.jsonl, which `gimlet gin parse` must print, with the real gin-config.

    pip install gin-config==0.5.0 && python tests/language/records/make_records.py

Made with gin-config 0.5.0 on Python 3.11.
"""

import json
import math
import pathlib

from gin import config_parser

FOLDER = pathlib.Path(__file__).parent


class Delegate(config_parser.ParserDelegate):
    """References and macros as JSON shows them."""

    def configurable_reference(self, scoped_name, evaluate):
        return Shown({"$ref": scoped_name, "call": evaluate})

    def macro(self, scoped_name):
        return Shown({"$macro": scoped_name})


class Shown:
    def __init__(self, json):
        self.json = json


def shown(value):
    match value:
        case None | bool() | str():
            return value
        case int():
            return value if -(2**63) <= value < 2**63 else {"$int": str(value)}
        case float():
            return value if math.isfinite(value) else {"$float": str(value)}
        case complex():
            return {"$complex": [shown(value.real), shown(value.imag)]}
        case bytes():
            return {"$bytes": value.hex()}
        case list():
            return [shown(item) for item in value]
        case tuple():
            return {"$tuple": [shown(item) for item in value]}
        case dict():
            return {"$dict": [[shown(key), shown(item)] for key, item in value.items()]}
    return value.json


def record(s):
    match s:
        case config_parser.BindingStatement(arg_name=""):
            return {"kind": "macro", "scope": s.scope, "selector": s.selector, "value": shown(s.value)}
        case config_parser.BindingStatement():
            # The parser gives a column to the lines of blocks only.
            in_block = s.location.char_num is not None
            return {"kind": "binding", "scope": s.scope, "selector": s.selector, "arg": s.arg_name,
                    "value": shown(s.value), "in_block": in_block}
        case config_parser.BlockDeclaration():
            return {"kind": "block", "scope": s.scope, "selector": s.selector}
        case config_parser.IncludeStatement():
            return {"kind": "include", "value": s.filename}
    alias = {} if s.alias is None else {"alias": s.alias}
    return {"kind": "import", "module": s.module, "is_from": s.is_from, **alias}


statements = config_parser.ConfigParser((FOLDER / "statements.gin").read_text(), Delegate())
lines = [{"file": "-", **record(s), "line": s.location.line_num} for s in statements]
lines.append({"file": "-", "kind": "eof", "statements": len(lines)})
with open(FOLDER / "statements.jsonl", "w") as out:
    for line in lines:
        out.write(json.dumps(line) + "\n")
