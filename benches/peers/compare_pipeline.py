"""Runs `cargo bench --bench pipeline` and SeqIO's `pipeline.py` in turn, each on one core, and prints their rates.

Each round starts both processes afresh, in alternating order, on the same core. Rates are by the clock and, for
busy machines, by processor time. It fails if the two tokenize the corpus differently.

Usage: python compare_pipeline.py --corpus=TEXT --model=SPM --peer_python=PYTHON --t5=DIR --bench=BINARY
(`make_corpus.py` makes the text and the model; `cargo bench --no-run` names the binary)
"""

import argparse
import collections
import json
import pathlib
import statistics
import subprocess

UNITS = {"tokenize": ("MB/s", "megabytes"), "span_corruption": ("examples/s", "examples"),
         "span_corruption_packed": ("rows/s", "examples"), "cached": ("examples/s", "examples")}


def run(command):
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--peer_python", required=True)
    parser.add_argument("--t5", required=True)
    parser.add_argument("--bench", required=True)
    parser.add_argument("--cache", required=True, help="folder for the corpus's cache, which Gimlet makes")
    parser.add_argument("--core", default="0")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, default=60)
    args = parser.parse_args()

    common = [f"--corpus={args.corpus}", f"--model={args.model}", f"--batches={args.batches}",
              f"--cache={args.cache}"]
    run([args.bench, *common, "--only=cached"])
    script = str(pathlib.Path(__file__).with_name("pipeline.py"))
    commands = {
        "gimlet": ["taskset", "-c", args.core, args.bench, *common],
        "seqio": ["taskset", "-c", args.core, args.peer_python, script, *common, f"--t5={args.t5}"],
    }
    records = collections.defaultdict(list)
    for index in range(args.rounds):
        names = list(commands) if index % 2 == 0 else list(commands)[::-1]
        for name in names:
            for record in run(commands[name]):
                records[record["measure"], name].append(record)
    ids = {(record["tokens"], record["checksum"])
           for name in commands for record in records["tokenize", name]}
    threads = collections.defaultdict(list)
    for _ in range(args.rounds):
        for count in ("1_thread", "2_threads"):
            record, = run([args.bench, *common, f"--only=span_corruption_{count}"])
            threads[count].append(record["examples"] / record["seconds"])
    ratios = sorted(two / one for one, two in zip(threads["1_thread"], threads["2_threads"]))
    print(f"span_corruption, 2 threads over 1 by the clock: {statistics.median(ratios):.2f} "
          f"({ratios[0]:.2f} to {ratios[-1]:.2f})")
    restarts = sorted(run([args.bench, *common, "--only=restart"])[0]["seconds"] for _ in range(args.rounds))
    print(f"restart after 100 batches, seconds to the first: {statistics.median(restarts):.2f} "
          f"({restarts[0]:.2f} to {restarts[-1]:.2f})")
    assert len(ids) == 1, f"the ids differ: {ids}"
    print(f"tokenize: the same {ids.pop()[0]:,} ids")
    for measure, (unit, amount) in UNITS.items():
        for time in ("seconds", "cpu_seconds"):
            rates = {name: [r[amount] / r[time] for r in records[measure, name]] for name in commands}
            ratios = [ours / theirs for ours, theirs in zip(rates["gimlet"], rates["seqio"])]
            medians = ", ".join(f"{name} {statistics.median(rates[name]):,.1f}" for name in commands)
            print(f"{measure}, {unit} by {time}: {medians}; ratio {statistics.median(ratios):.2f} "
                  f"({min(ratios):.2f} to {max(ratios):.2f})")


if __name__ == "__main__":
    main()
