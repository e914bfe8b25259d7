"""Stands in for the package of this name. Written by `gimlet shims`."""


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    # An AttributeError would lose its words in `from package import name`.
    raise ImportError(
        f"{__name__} has no {name}: {__file__} is of `gimlet shims` and hands command lines over to gimlet; "
        "take its folder off PYTHONPATH to import the real package"
    )
