"""Stands in for the package of this name. Written by `gimlet shims`."""

import importlib

# What the package has for other programs; its programs are run, not imported.
MODULES = ["t5x.checkpoints"]


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    if f"{__name__}.{name}" in MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    # An AttributeError would lose its words in `from package import name`.
    raise ImportError(
        f"{__name__} has no {name}: {__file__} is of `gimlet shims` and hands command lines over to gimlet; "
        "take its folder off PYTHONPATH to import the real package"
    )
