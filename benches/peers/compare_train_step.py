"""Runs `train_step.py` and `gimlet bench train_step` in turn and prints the ratio of their steps.

Both wait passively for their OpenMP threads, since the machine may be shared, and flush denormals. Each
round starts both processes afresh, in alternating order; the first step of a process is left out. `--lora` compares
training of LoRA's factors, and measures Gimlet's training of the whole model beside them.

Usage: python compare_train_step.py --peer_python PYTHON --gimlet BINARY [--dtype bfloat16] [--rounds 3]
(`make build` makes BINARY, target/release/gimlet)
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess

from ours import command

# Rows, and tokens of inputs and targets, of each size.
BATCHES = {"quickstart": (32, 128, 32), "small": (8, 512, 114), "base": (8, 512, 114), "bert_4_layers": (8, 512, 0),
           "bert_base": (8, 512, 0)}
ENVIRONMENT = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0", "OMP_NUM_THREADS": "2"}


def run(command):
    done = subprocess.run(command, env={**os.environ, **ENVIRONMENT}, check=True, capture_output=True, text=True)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def figures(records):
    """Seconds and CPU seconds of the steps after the first, and MB at the peak."""
    if "step_seconds" in records[0]:
        record = records[0]
        return record["step_seconds"], record["step_cpu_seconds"], record["peak_memory_bytes"] / 2**20
    column = lambda name: [record[name] for record in records[1:]]
    return column("seconds"), column("cpu_seconds"), records[-1]["peak_rss_mb"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--peer_python", required=True)
    parser.add_argument("--gimlet", required=True)
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--attention", default="sdpa")
    parser.add_argument("--size", choices=list(BATCHES), default="small")
    parser.add_argument("--lora", action="store_true")
    args = parser.parse_args()
    rows, inputs, targets = BATCHES[args.size]

    script = str(pathlib.Path(__file__).with_name("train_step.py"))
    commands = {
        "gimlet": command(args.gimlet, "train_step", args.dtype, size=args.size, rows=rows, inputs=inputs,
                          targets=targets, steps=args.steps - 1, warmup=1),
        "transformers": [args.peer_python, script, f"--dtype={args.dtype}", f"--steps={args.steps}",
                         f"--attention={args.attention}", f"--size={args.size}", f"--batch_size={rows}",
                         f"--inputs_length={inputs}", f"--targets_length={targets}"],
    }
    if args.lora:
        commands["gimlet, whole"] = list(commands["gimlet"])
        commands["gimlet"].append("--gin_file=gimlet/lora.gin")
        commands["transformers"].append("--lora")
    seconds, cpu, peak = ({name: [] for name in commands} for _ in range(3))
    for index in range(args.rounds):
        names = list(commands) if index % 2 == 0 else list(commands)[::-1]
        for name in names:
            times, cpu_times, peak_mb = figures(run(commands[name]))
            seconds[name] += times
            cpu[name] += cpu_times
            peak[name].append(peak_mb)
    for name in commands:
        print(f"{name:<14}{args.dtype}: median {statistics.median(seconds[name]):.3f} s, "
              f"best {min(seconds[name]):.3f} s, cpu {statistics.median(cpu[name]):.3f} s, peak {max(peak[name]):.0f} MB")
    ratio = lambda values, reduce: reduce(values["transformers"]) / reduce(values["gimlet"])
    memory = max(peak["gimlet"]) / max(peak["transformers"])
    print(f"speed of gimlet over transformers: {ratio(seconds, statistics.median):.2f} (median), "
          f"{ratio(seconds, min):.2f} (best), {ratio(cpu, statistics.median):.2f} (cpu time); memory {memory:.2f}")


if __name__ == "__main__":
    main()
