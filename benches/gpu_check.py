#!/usr/bin/env python3
"""What a machine with an NVIDIA GPU tells in under eight minutes: whether our kernels compute what libtorch
computes, and how fast training and decoding are.

    benches/gpu_check.py                            builds, then runs everything
    benches/gpu_check.py --binaries DIR             runs what `--build_only --binaries DIR` left there
    benches/gpu_check.py --peer_python PYTHON       also runs transformers in turn with ours

Prints a line for each check and a JSON line for each benchmark: sequences a second, utilization of the matrix
units by the model's FLOPs (against 989 TFLOP/s, an H100's and H200's in bfloat16), and the ratio of each
peer's seconds to ours, all medians of the steps after the first three. What does not fit into the time is left out and said so.
Exits with 1 if a check failed.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PEAK_FLOPS = 989e12
WARM_UP = 3
# Width, feed-forward width, heads, layers of a stack; and a batch that fits into 80 GB.
SIZES = {
    "small": (512, 1024, 6, 8, 128),
    "base": (768, 2048, 12, 12, 64),
    "large": (1024, 2816, 16, 24, 32),
    "xl": (2048, 5120, 32, 24, 8),
}
# The largest is measured against ours in fp8 instead of against peers, which would not fit beside the clock.
FP8_SIZES = ["xl"]
INPUTS, TARGETS, VOCAB = 512, 114, 32128
# Those tests of `tests/gpu` that call every kernel in small shapes.
SANITIZED = ["operations::", "optimizer::", "attention::"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", type=pathlib.Path, help="folder of the programs `gpu` and `train_step`")
    parser.add_argument("--build_only", action="store_true", help="build into --binaries and stop")
    parser.add_argument("--peer_python", help="a Python with torch 2.11.0 and transformers 5.23.0")
    parser.add_argument("--seconds", type=float, default=450, help="time for all of it, building left out")
    args = parser.parse_args()

    binaries = args.binaries or ROOT / "target/cuda/gpu_check"
    if args.build_only or not args.binaries:
        build(binaries)
    if args.build_only:
        return
    check = Check(binaries, args.peer_python, time.monotonic() + args.seconds)
    check.parity()
    check.sanitize()
    for size in SIZES:
        check.train_step(size)
    sys.exit(1 if check.failed else 0)


def build(folder):
    folder.mkdir(parents=True, exist_ok=True)
    environment = {"LIBTORCH": str(ROOT / ".libtorch-cuda/torch"), **os.environ}
    for kind, name in [("test", "gpu"), ("bench", "train_step")]:
        command = ["cargo", kind, "--no-run", "--features", "cuda", "--target-dir", "target/cuda",
                   f"--{kind}", name, "--message-format=json"] + (["--release"] if kind == "test" else [])
        done = subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE, text=True)
        for line in done.stdout.splitlines():
            message = json.loads(line)
            if message.get("executable") and message["target"]["name"] == name:
                shutil.copy2(message["executable"], folder / name)


class Check:
    def __init__(self, binaries, peer_python, deadline):
        self.binaries, self.peer_python, self.deadline = binaries, peer_python, deadline
        self.failed = False

    def parity(self):
        """Each kernel against libtorch's operations: a line for each test."""
        self.verdict("parity", [self.binaries / "gpu", "--test-threads=1"])

    def sanitize(self):
        """The same operations under NVIDIA's checker of memory accesses, where it is installed: also libtorch's
        attention, which reads what we lay out for it."""
        tool = shutil.which("compute-sanitizer")
        if tool is None:
            return print("compute-sanitizer: left out, not installed", flush=True)
        self.verdict("compute-sanitizer", [tool, "--error-exitcode=1", self.binaries / "gpu",
                                           "--test-threads=1", *SANITIZED])

    def verdict(self, what, command):
        done = self.run(command)
        if done is None:
            self.failed = True
            return print(f"{what}: FAILED, out of time", flush=True)
        for line in done.stdout.splitlines():
            if line.startswith("test ") or "panicked" in line or "relative error" in line:
                print(f"{what}: {line}", flush=True)
        self.failed |= done.returncode != 0
        print(f"{what}: {'FAILED' if done.returncode else 'ok'}", flush=True)
        if done.returncode:
            print(done.stderr[-2000:], flush=True)

    def train_step(self, size):
        """Our step and the peers', in turn, twice; the second round in the opposite order."""
        batch = SIZES[size][-1]
        options = ["--dtype=bfloat16", f"--size={size}", "--device=cuda", f"--batch_size={batch}", "--steps=13"]
        commands = {"gimlet": [self.binaries / "train_step", *options]}
        if size in FP8_SIZES:
            commands["gimlet fp8"] = [*commands["gimlet"], "--fp8=1"]
        elif self.peer_python:
            peer = [self.peer_python, ROOT / "benches/peers/train_step.py", *options]
            commands["transformers"] = peer
            commands["transformers compiled"] = [*peer, "--compile"]
        seconds, losses = {name: [] for name in commands}, {}
        for names in [list(commands), list(commands)[::-1]]:
            for name in names:
                done = self.run(commands[name])
                if done is None or done.returncode != 0:
                    reason = "out of time" if done is None else done.stderr[-300:]
                    print(f"train_step {size}, {name}: left out, {reason}", flush=True)
                    continue
                records = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
                seconds[name] += [record["seconds"] for record in records[WARM_UP:]]
                losses[name] = records[0]["loss"]
        self.report(size, batch, seconds, losses)

    def report(self, size, batch, seconds, losses):
        medians = {name: statistics.median(found) for name, found in seconds.items() if found}
        for name, median in medians.items():
            rate = batch / median
            print(json.dumps({
                "bench": "train_step", "size": size, "implementation": name, "dtype": "bfloat16", "batch": batch,
                "inputs": INPUTS, "targets": TARGETS, "seconds": median, "sequences_per_second": rate,
                "utilization": rate * model_flops(size) / PEAK_FLOPS, "first_loss": losses[name],
                "seconds_over_gimlet": median / medians["gimlet"] if "gimlet" in medians else None,
            }), flush=True)

    def run(self, command):
        """The finished process, or None if there was no time for it."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            return None
        try:
            return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=left)
        except subprocess.TimeoutExpired:
            return None


def model_flops(size):
    """Of a training step, a sequence: a multiplication and an addition are two, the backward pass is twice the
    forward pass, lookups are free and nothing is computed again."""
    d, ff, heads, layers, _ = SIZES[size]
    n, m, i = INPUTS, TARGETS, heads * 64
    dense = 8 * d * i + 6 * d * ff
    encoder = layers * (n * dense + 4 * n * n * i)
    decoder = layers * (m * dense + 4 * m * m * i + 4 * m * d * i + 4 * n * d * i + 4 * m * n * i)
    return 3 * (encoder + decoder + 2 * m * d * VOCAB)


if __name__ == "__main__":
    main()
