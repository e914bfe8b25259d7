"""Runs `cargo bench --bench encode` and Python's SentencePiece (`encode.py`) in turn, each on one core, and prints
their rates. Each round starts both processes afresh, in alternating order, on the same core. It fails if a line of the
text gets other ids.

Usage: python compare_encode.py --corpus=TEXT --peer_python=PYTHON --bench=BINARY MODEL...
(`make_models.py` makes texts and models; `cargo bench --no-run` names the binary)
"""

import argparse
import collections
import json
import os
import pathlib
import statistics
import subprocess


def run(command):
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--peer_python", required=True)
    parser.add_argument("--bench", required=True)
    parser.add_argument("--core", default="0")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("models", nargs="+")
    args = parser.parse_args()

    arguments = [f"--corpus={args.corpus}", *args.models]
    script = str(pathlib.Path(__file__).with_name("encode.py"))
    commands = {"gimlet": ["taskset", "-c", args.core, args.bench, *arguments],
                "sentencepiece": ["taskset", "-c", args.core, args.peer_python, script, *arguments]}
    records = collections.defaultdict(list)
    for index in range(args.rounds):
        for name in list(commands) if index % 2 == 0 else list(commands)[::-1]:
            for record in run(commands[name]):
                records[record["model"], name].append(record)
    for model in args.models:
        found = {name: records[model, name] for name in commands}
        ids = {(r["tokens"], r["checksum"]) for name in commands for r in found[name]}
        assert len(ids) == 1, f"{model}: the ids differ: {ids}"
        rates = {name: [r["megabytes"] / r["cpu_seconds"] for r in found[name]] for name in commands}
        ratios = [ours / theirs for ours, theirs in zip(*rates.values())]
        medians = ", ".join(f"{name} {statistics.median(rates[name]):.1f}" for name in commands)
        print(f"{os.path.basename(model)}: the same {ids.pop()[0]:,} ids of {found['gimlet'][0]['megabytes']:.1f} MB; "
              f"MB/s by CPU: {medians}; ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")


if __name__ == "__main__":
    main()
