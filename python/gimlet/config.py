"""Configurations as Python's values."""

import dataclasses
import json

from gimlet.process import flags, run


@dataclasses.dataclass(frozen=True)
class Reference:
    """`@scope/name`, or `@scope/name()` if it is called."""

    name: str
    call: bool

    def __str__(self):
        return f"@{self.name}" + "()" * self.call


@dataclasses.dataclass(frozen=True)
class Macro:
    """`%NAME`."""

    name: str

    def __str__(self):
        return f"%{self.name}"


def parse_config(*files, bindings=(), search_paths=None):
    """The final values that gin files and bindings give: `{"TRAIN_STEPS": 1000, "train.total_steps": Macro("TRAIN_STEPS"), ...}`.

    A folder stands for its `config.gin`, later files win over earlier ones, and bindings over all.
    """
    named = flags({"gin_bindings": list(bindings), "gin_search_paths": search_paths})
    text = run("gin", "print", *files, *named)
    values = {}
    for line in run("gin", "parse", "-", given=text).splitlines():
        statement = json.loads(line)
        if statement["kind"] in ("macro", "binding"):
            scope = statement["scope"] + "/" if statement["scope"] else ""
            parameter = "." + statement["arg"] if "arg" in statement else ""
            values[scope + statement["selector"] + parameter] = _value(statement["value"])
    return values


def _value(found):
    if isinstance(found, list):
        return [_value(one) for one in found]
    if not isinstance(found, dict):
        return found
    return next(read(found) for kind, read in _KINDS.items() if kind in found)


_KINDS = {
    "$ref": lambda found: Reference(found["$ref"], found["call"]),
    "$macro": lambda found: Macro(found["$macro"]),
    "$tuple": lambda found: tuple(map(_value, found["$tuple"])),
    "$dict": lambda found: {_value(key): _value(value) for key, value in found["$dict"]},
    "$int": lambda found: int(found["$int"]),
    "$float": lambda found: float(found["$float"]),
    "$bytes": lambda found: bytes.fromhex(found["$bytes"]),
    "$complex": lambda found: complex(*found["$complex"]),
    # An expression over macros stays a text.
    "$computed": lambda found: found["$computed"],
}
