"""Writes python_glob.json: trees of odd names and the names that Python's glob finds in them.

Made with Python 3.11:
    python tests/pipeline/storage/python_glob.py
"""

import glob
import json
import os
import random
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
PLAIN = [
    "t1.txt", "sub/xab.txt", "sub/b.txt", "sub/deep/xab.txt", "a b/c d.txt", "a[1]/x-1.txt", "a[1]/x-2.txt",
    ".hid/x.txt", "sub/.b.txt", "é/日本.txt", "]x.txt", "[!]/b.txt", "s-u_b.txt", "sub2/sub/b.txt", "sub/deep/.d/b.txt",
]
# A name that ends with a slash is an empty folder; one with an arrow is a link.
ODD = PLAIN + ["empty/", "a*b?.txt", "*", "to -> sub", "gone -> nowhere", "t -> t1.txt", "é/to -> ../sub/deep"]
GIVEN = [
    "./sub/*.txt", "sub//*.txt", ".//sub/./*.txt", "./t1.txt", "sub/", "sub//", "sub/.", "t1.txt/", "*/", "*/*", "**",
    "**/", "**/*.txt", "sub/**", "**/b.txt", "**/deep/**", "sub/**/xab.txt", "a[[]1]/*", "a[1]/*", "a\\[1]/*", "[]]*",
    "[[]!]/*", "[!]", "[", "[s-", "?[!1].txt", "a b/c ?.txt", "é/*", "?/*", ".*", ".h*/*", "*/.*", "**/.*", "none/*",
    "none", "t1.txt/*", "*.txt", "s*b", "***", "**x", "sub**/*", "sub/**b.txt", "*/sub/b.txt", "*/deep", "*/deep/", "s[a-z]b/*",
    "s[!a]b/*", "[.]hid/*", "**/**/b.txt", "**/.d/b.txt",
]
ODD_GIVEN = [
    "sub/../t1.txt", "*/../t1.txt", "sub/../*.txt", "empty/*", "empty", "empty/", "gone", "gone/", "g*", "g*/", "to/*", "to/**", "t/",
    "t*", "[*]", "a[*]b[?].txt", "**/to/*", "é/to/../*", "./to/./*", "**/..", "sub/..",
]
PARTS = ["*", "**", "?ub", "s*", "[a-t]*", "[!s]*", "*.txt", "sub", "deep", ".", "a b", "a[[]1]", "é", ".*", "*b*", "b.txt", "[", "to"]


def made(names):
    for name in names:
        name, _, target = name.partition(" -> ")
        os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
        if target:
            os.symlink(target, name)
        elif name.endswith("/"):
            os.makedirs(name, exist_ok=True)
        else:
            open(name, "w").close()


def found(names, patterns):
    draw = random.Random(0)
    for _ in range(100):
        parts = [draw.choice(PARTS) for _ in range(draw.randint(1, 4))]
        patterns = patterns + ["".join(part + draw.choice(["/", "/", "/", "//"]) for part in parts[:-1]) + parts[-1]
                               + draw.choice(["", "", "", "/"])]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        made(names)
        cases = {pattern: glob.glob(pattern, recursive=True) for pattern in patterns}
        # Before Python 3.13 `none/**` names a folder that is not there.
        cases = {pattern: [name for name in named if os.path.lexists(name)] for pattern, named in cases.items()}
        os.chdir(HERE)
    return {"names": names, "found": {pattern: sorted(set(named)) for pattern, named in cases.items()}}


with open(os.path.join(HERE, "python_glob.json"), "w") as file:
    trees = {"plain": found(PLAIN, GIVEN), "odd": found(ODD, GIVEN + ODD_GIVEN)}
    lines = json.dumps(trees, ensure_ascii=False).replace("], \"", "],\n\"")
    file.write(lines + "\n")
