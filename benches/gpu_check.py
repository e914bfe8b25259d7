#!/usr/bin/env python3
"""What a machine with an NVIDIA GPU tells in under eight minutes: whether our kernels compute what libtorch
computes, and how fast training and decoding are.

    benches/gpu_check.py                            builds, then runs everything
    benches/gpu_check.py --binaries DIR             runs what `--build_only --binaries DIR` left there
    benches/gpu_check.py --gpus N                   runs many_devices.py on N GPUs
    benches/gpu_check.py --peer_python PYTHON       also runs transformers in turn with ours

Prints a line for each check and a JSON line for each benchmark: sequences a second, utilization of the matrix
units by the model's FLOPs (against 989 TFLOP/s, an H100's and H200's in bfloat16), and the ratio of each
peer's seconds to ours, all medians of the steps after the first three; and where the time of our step goes. What does
not fit into the time is left out and said so.
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
sys.path[:0] = [str(ROOT / "benches"), str(ROOT / "benches/peers")]

import many_devices
from ours import command

PEAK_FLOPS = 989e12
WARM_UP = 3
# A batch that fits into 80 GB.
SIZES = {"small": 128, "base": 64, "large": 32, "xl": 8}
# The largest is measured against ours in fp8 instead of against peers, which would not fit beside the clock.
FP8_SIZES = ["xl"]
FP8 = ["train.te_config_cls=@te_helper.TransformerEngineConfig", "te_helper.TransformerEngineConfig.enable_fp8=True"]
INPUTS, TARGETS = 512, 114
# What is decoded.
DECODED_SIZE, DECODED, TOKENS = "large", 64, 128
# Those tests of `tests/gpu` that call every kernel in small shapes.
SANITIZED = ["operations::", "optimizer::", "attention::"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", type=pathlib.Path, help="folder of the programs `gpu` and `gimlet-torch`")
    parser.add_argument("--build_only", action="store_true", help="build into --binaries and stop")
    parser.add_argument("--peer_python", help="a Python with torch 2.11.0 and transformers 5.23.0")
    parser.add_argument("--gpus", type=int, help="check this number of GPUs together instead: many_devices.py")
    parser.add_argument("--seconds", type=float, default=450, help="time for all of it, building left out")
    args = parser.parse_args()

    if args.gpus:
        # `make cuda` has built it, beside `gimlet-torch`.
        programs = args.binaries or ROOT / "target/cuda/release"
        sys.exit(1 if many_devices.check(programs / "gimlet", args.gpus, "cuda") else 0)
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
    check.decode(DECODED_SIZE)
    sys.exit(1 if check.failed else 0)


def build(folder):
    folder.mkdir(parents=True, exist_ok=True)
    environment = {"LIBTORCH": str(ROOT / ".libtorch-cuda/torch"), **os.environ}
    for words, name in [(["test", "--no-run", "--test"], "gpu"), (["build", "--bin"], "gimlet-torch")]:
        words = ["cargo", *words, name, "--release", "--features", "cuda", "--target-dir", "target/cuda",
                 "--message-format=json"]
        done = subprocess.run(words, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE, text=True)
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
        """Our step and the peers'."""
        rows = SIZES[size]
        shape = {"size": size, "rows": rows}
        commands = {"gimlet": self.ours("train_step", **shape)}
        if size in FP8_SIZES:
            commands["gimlet fp8"] = self.ours("train_step", **shape, bindings=FP8)
        commands.update(self.peers("train_step.py", size, [f"--batch_size={rows}", "--steps=13"]))
        self.measure({"bench": "train_step", "size": size, "batch": rows, "tokens": rows * (INPUTS + TARGETS)}, commands)

    def decode(self, size):
        """Our greedy decoding and the peers'."""
        commands = {"gimlet": self.ours("decode", size=size, rows=DECODED, targets=TOKENS, steps=5)}
        options = [f"--batch_size={DECODED}", f"--tokens={TOKENS}", "--rounds=8"]
        commands.update(self.peers("decode.py", size, options))
        self.measure({"bench": "decode", "size": size, "batch": DECODED, "tokens": DECODED * TOKENS}, commands)

    def ours(self, bench, **shape):
        return command(self.binaries / "gimlet-torch", bench, "bfloat16", warmup=WARM_UP, **shape)

    def peers(self, script, size, options):
        """Commands by name; the largest sizes would not fit beside the clock."""
        if not self.peer_python or size in FP8_SIZES:
            return {}
        words = [f"--size={size}", "--dtype=bfloat16", "--device=cuda", *options]
        peer = [self.peer_python, ROOT / "benches/peers" / script, *words]
        return {"transformers": peer, "transformers compiled": [*peer, "--compile"]}

    def measure(self, about, commands):
        """Runs the commands in turn, then again in the opposite order, and prints a line for each. What compiles for
        a minute runs once."""
        seconds, last = {name: [] for name in commands}, {}
        again = [name for name in commands if "compiled" not in name]
        for names in [list(commands), again[::-1]]:
            for name in names:
                done = self.run(commands[name])
                if done is None or done.returncode != 0:
                    reason = "out of time" if done is None else done.stderr[-300:]
                    print(f"{about['bench']} {about['size']}, {name}: left out, {reason}", flush=True)
                    continue
                for line in done.stderr.splitlines():
                    if line.startswith("warning:"):
                        print(f"{about['bench']} {about['size']}, {name}: {line}", flush=True)
                records = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
                last[name] = records[-1]
                if "peak_device_mb" in last[name]:
                    last[name]["peak_memory_bytes"] = last[name]["peak_device_mb"] * 2**20
                ours = last[name].get("step_seconds")
                seconds[name] += ours or [record["seconds"] for record in records[WARM_UP:]]
                # That of the first step, with which both sides begin.
                losses = last[name].get("losses", [records[0].get("loss")])
                last[name]["first_loss"] = losses[0]
        self.report(about, seconds, last)

    def report(self, about, seconds, last):
        medians = {name: statistics.median(found) for name, found in seconds.items() if found}
        ours = last.get("gimlet", {})
        for name, median in medians.items():
            flops = ours.get("model_flops")
            print(json.dumps({
                **about, "implementation": name, "dtype": "bfloat16", "seconds": median,
                "sequences_per_second": about["batch"] / median, "tokens_per_second": about["tokens"] / median,
                "utilization": flops / median / PEAK_FLOPS if flops else None,
                "first_loss": last[name]["first_loss"],
                "peak_memory_bytes": last[name].get("peak_memory_bytes"),
                "seconds_over_gimlet": median / medians["gimlet"] if "gimlet" in medians else None,
            }), flush=True)
        for name in [name for name in medians if "breakdown" in last[name]]:
            breakdown = last[name]["breakdown"]
            shares = ", ".join(f"{part} {share:.1%}" for part, share in breakdown["shares"].items())
            print(f"{about['bench']} {about['size']}, {name}, of the {breakdown['timeline']}'s "
                  f"{breakdown['seconds'] * 1e3:.1f} ms a step: {shares}", flush=True)
            for one in breakdown["longest"]:
                print(f"    {one['seconds'] * 1e3:8.2f} ms in {one['runs']:.0f} runs of {one['name'][:100]}", flush=True)

    def run(self, command):
        """The finished process, or None if there was no time for it."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            return None
        try:
            return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=left)
        except subprocess.TimeoutExpired:
            return None


if __name__ == "__main__":
    main()
