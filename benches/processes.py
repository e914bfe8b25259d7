"""Runs one training of two processes, and two trainings of one process at the same time, in turn, and prints the
throughput of the first as a share of the second.

Each process has one thread and its rows of a batch, so that both sides compute the same; the first one sums gradients
besides. Where other programs use the machine, compare the CPU time of a step, which holds what sending and copying
cost, but not the waiting.

Usage: python processes.py --gimlet BINARY [--rows 4] [--steps 5] [--rounds 5] [--binding NAME=VALUE]...
(from the root of the repository; `make build` makes BINARY, target/release/gimlet)
"""

import argparse
import json
import os
import statistics
import subprocess
import sys

sys.path.insert(0, "benches/peers")
from ours import command  # noqa: E402

ENVIRONMENT = {**os.environ, "OMP_WAIT_POLICY": "PASSIVE", "OMP_NUM_THREADS": "1"}
PROCESSES = 2


def bench(args, rows, launcher=()):
    words = command(args.gimlet, "train_step", args.dtype, rows=rows, steps=args.steps, warmup=1, bindings=args.binding)
    return [words[0], *launcher, *words[1:]]


def run(commands):
    """Starts all commands at once, and returns what each prints."""
    running = [subprocess.Popen(words, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True) for words in commands]
    outputs = [process.communicate()[0] for process in running]
    if any(process.returncode for process in running):
        raise SystemExit("a process failed")
    return [json.loads(output) for output in outputs]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gimlet", required=True)
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--rows", type=int, default=4, help="rows of each process")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--binding", action="append", default=[], help="a gin binding of both sides")
    args = parser.parse_args()

    launcher = ("launch", f"--nproc_per_node={PROCESSES}")
    sides = {
        "together": [bench(args, PROCESSES * args.rows, launcher)],
        "apart": [bench(args, args.rows)] * PROCESSES,
    }
    shares = {"seconds": [], "CPU seconds": []}
    for index in range(args.rounds):
        steps = {}
        for side in list(sides)[:: 1 if index % 2 == 0 else -1]:
            found = run(sides[side])
            mean = lambda name: statistics.mean(statistics.median(one[name]) for one in found)
            steps[side] = mean("step_seconds"), mean("step_cpu_seconds")
            waited = found[0].get("seconds_waited")
            said = "" if waited is None else f", {waited:.3f} s of waiting, {found[0]['bytes_sent']:,} bytes sent"
            print(f"{side}: {steps[side][0]:.3f} s a step, CPU {steps[side][1]:.3f} s{said}", flush=True)
        for column, name in enumerate(shares):
            shares[name].append(steps["apart"][column] / steps["together"][column])
    for name, values in shares.items():
        print(f"throughput of {PROCESSES} processes together by {name}: {statistics.median(values):.3f} of that apart "
              f"({', '.join(f'{value:.3f}' for value in values)})")


if __name__ == "__main__":
    main()
