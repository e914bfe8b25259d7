#!/usr/bin/env python3
"""Hands its command line over to gimlet. Written by `gimlet shims`."""

import os
import sys

WORDS_BEFORE = WORDS
ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.realpath(__file__)), *[".."] * FOLDERS))


def main():
    # Python that gimlet starts is to find the real packages, not those of this folder.
    if "PYTHONPATH" in os.environ:
        paths = os.environ["PYTHONPATH"].split(os.pathsep)
        kept = [path for path in paths if os.path.realpath(path) != ROOT]
        os.environ["PYTHONPATH"] = os.pathsep.join(kept)
    try:
        os.execvp("gimlet", ["gimlet", *WORDS_BEFORE, *sys.argv[1:]])
    except FileNotFoundError:
        sys.exit(f"error: {sys.argv[0]} hands over to `gimlet`, which is not on the PATH: install it or add its folder")


if __name__ == "__main__":
    main()
