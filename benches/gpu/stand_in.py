"""Prints at once the lines that a peer's script prints: for rehearsals of `gpu_check.py` without peers."""

import argparse
import json
import pathlib


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("script", type=pathlib.Path)
    parser.add_argument("--methods", default="train")
    parser.add_argument("--steps", "--rounds", type=int, dest="count")
    args, _ = parser.parse_known_args()
    for method in args.methods.split(","):
        for _ in range(args.count):
            print(json.dumps({"implementation": args.script.stem, "method": method, "seconds": 1.0, "loss": 1.0}))


if __name__ == "__main__":
    main()
