"""The part of `gpu_check.py` for several devices: whether a run on them is the run on one, the bytes that it sends, and how much faster it is.

    benches/gpu_check.py --gpus 8 [--binaries DIR]     NCCL, on the first 8 GPUs
    benches/gpu_check.py --gpus 1                      two processes on one GPU by Gloo, and NCCL alone
    benches/many_devices.py --device=cpu --gpus 4 --programs target/debug
                                                       the same on Gloo, as a test of this script

Equality: losses of a small T5 with dropout in float32 on each mesh against those on one device. Bytes: those that the log counts against
those that `--dry_run` foretells. Speed: sequences a second of a T5 1.1 in bfloat16 with as many rows on each device, over the
number of devices times those of one device alone, in turn, medians.
"""

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
RUN = ROOT / "runs/quickstart/pretrain.gin"
STEPS = 6
# Products of matrices may be summed in another order on each mesh.
TOLERANCE = 1e-4
PJIT = "partitioning.PjitPartitioner"
RULES = "partitioning.standard_logical_axis_rules"
# Small, and divisible by 8 devices on either axis.
SMALL = ["network.T5Config.num_heads=8", "network.T5Config.emb_dim=64", "network.T5Config.head_dim=8",
         "network.T5Config.mlp_dim=128", "network.T5Config.num_encoder_layers=2", "network.T5Config.num_decoder_layers=2",
         "DROPOUT_RATE=0.1", "BATCH_SIZE=16"]
QUIET = ["train.eval_period=0", "train.infer_eval_dataset_cfg=None", "utils.SaveCheckpointConfig.period=None",
         "train.stats_period=1"]


def meshes(count):
    """Name and bindings of each mesh of so many devices."""
    half = max(2, count // 2)
    divided = [f"{PJIT}.num_partitions={half}"]
    return {
        f"data {count}": [],
        f"model {count}": [f"{PJIT}.num_partitions={count}"],
        f"data {count // half} x model {half}": divided,
        f"data {count // half} x model {half}, activations": [*divided, f"{RULES}.activation_partitioning_dims=2"],
        f"ZeRO-1 over {count}": [f"{PJIT}.spread_optimizer_state=True"],
        f"ZeRO-3 over {count}": [f"{RULES}.parameter_partitioning_dims=2"],
        f"ZeRO-3 over {count // half} x model {half}": [*divided, f"{RULES}.parameter_partitioning_dims=2"],
        f"data {count}, bfloat16 gradients": [f"{PJIT}.reduce_dtype='bfloat16'"],
    }


# Those that two processes on one device try: the least that calls every operation.
SHARED = ["data 2", "model 2", "ZeRO-1 over 2", "ZeRO-3 over 2"]


def run_to_end(words, more):
    """Runs a command with more variables."""
    words = [str(word) for word in words]
    return subprocess.run(words, cwd=ROOT, env={**os.environ, **more}, capture_output=True, text=True)


class Devices:
    """Runs of `gimlet train` on some of the devices; `shared` puts all processes on the first one, and has them exchange tensors by
    Gloo. `run` runs a command, whose status is None if there was no time for it."""

    def __init__(self, gimlet, count, device, shared=False, run=run_to_end):
        self.gimlet, self.count, self.device, self.shared, self.run = gimlet, count, device, shared, run
        self.failed = False

    def train(self, count, bindings, steps, *flags):
        """Trains on so many devices; returns the output and the measurements of each step."""
        with tempfile.TemporaryDirectory() as folder:
            launch = ["launch", f"--nproc_per_node={count}"] if count > 1 else []
            words = [self.gimlet, *launch, "train", f"--gin_file={RUN}", f"--gin.MODEL_DIR='{folder}/model'",
                     f"--gin.TRAIN_STEPS={steps}", *[f"--gin.{binding}" for binding in [*QUIET, *bindings]], *flags]
            done = self.run(words, self.variables(count))
            if done.returncode is None:
                return "out of time", None
            if done.returncode != 0:
                return done.stderr[-1500:], None
            metrics = pathlib.Path(folder, "model/train/metrics.jsonl")
            lines = metrics.read_text().splitlines() if metrics.exists() else []
            return done.stdout, [json.loads(line) for line in lines if '"loss"' in line]

    def variables(self, count):
        more = {"GIMLET_BACKEND": "gloo"} if self.shared else {}
        if self.device == "cuda":
            present = ",".join(map(str, range(self.count)))
            visible = os.environ.get("CUDA_VISIBLE_DEVICES", present).split(",")
            more["CUDA_VISIBLE_DEVICES"] = ",".join(visible[:1 if self.shared else count])
        return more

    def equality(self, names):
        """Yields the name of each mesh, whether its losses are those of one device and its bytes those foretold, and by how much."""
        output, alone = self.train(1, SMALL, STEPS)
        if alone is None:
            yield "one device", False, output
            return
        for name in names:
            bindings = [*SMALL, *meshes(self.count)[name]]
            output, found = self.train(self.count, bindings, STEPS)
            if found is None:
                yield name, False, output
                continue
            worst = max(abs(a["loss"] - b["loss"]) / abs(b["loss"]) for a, b in zip(found, alone, strict=True))
            tolerance = 30 * TOLERANCE if "bfloat16" in name else TOLERANCE
            foretold = self.foretold(bindings)
            sent = found[-1].get("bytes_sent_per_step")
            if not sent or not foretold:
                yield name, False, f"no bytes: {sent}, {foretold}"
                continue
            # Sums of losses and of statistics, a few numbers each, are not foretold.
            passed = worst <= tolerance and abs(sent - foretold) <= 0.02 * foretold + 4096
            yield name, passed, f"losses differ by {worst:.1e}, {sent:,.0f} bytes a step, {foretold:,.0f} foretold"

    def tell_equality(self, names):
        for name, passed, detail in self.equality(names):
            self.failed |= not passed
            print(f"mesh {name}: {'ok' if passed else 'FAILED'}, {detail}", flush=True)

    def foretold(self, bindings):
        output, _ = self.train(self.count, bindings, STEPS, "--dry_run")
        found = re.search(r"traffic +([\d,]+) bytes", output)
        return int(found[1].replace(",", "")) if found else None

    def speed(self, size, rows, steps):
        """Weak scaling: the same rows on each device, alone and together in turn."""
        model = [f"--gin_file=t5x/examples/t5/t5_1_1/{size}.gin"] if size else []
        dtype = "bfloat16" if self.device == "cuda" else "float32"
        bindings = [f"network.T5Config.dtype='{dtype}'"] if size else [*SMALL]
        speeds = {1: [], self.count: []}
        for counts in [[1, self.count], [self.count, 1]]:
            for count in counts:
                output, found = self.train(count, [*bindings, f"BATCH_SIZE={rows * count}"], steps, *model)
                if found is None:
                    return self.fail(f"speed on {count}", output)
                speeds[count] += [step["timing/seqs_per_second"] for step in found[3:]]
                if count > 1:
                    sent = found[-1].get("bytes_sent_per_step")
        alone, together = [statistics.median(speeds[count]) for count in [1, self.count]]
        print(json.dumps({
            "bench": "weak_scaling", "size": size or "tiny", "device": self.device, "dtype": dtype,
            "devices": self.count, "rows_per_device": rows, "sequences_per_second": together,
            "sequences_per_second_of_one": alone, "efficiency": together / (alone * self.count),
            "bytes_sent_per_step": sent,
        }), flush=True)

    def fail(self, name, output):
        self.failed = True
        print(f"{name}: FAILED\n{output}", flush=True)


def check(programs, count, device):
    """Runs everything; returns whether something failed."""
    gimlet = programs / "gimlet"
    if count == 1:
        return check_one(programs, device)
    devices = Devices(gimlet, count, device)
    print(subprocess.run([str(gimlet), "doctor", f"--nproc_per_node={count}"], capture_output=True, text=True).stdout,
          flush=True)
    devices.tell_equality(meshes(count))
    if device == "cpu":
        devices.speed(None, 8, 5)
    else:
        for size, rows in [("base", 64), ("large", 32)]:
            devices.speed(size, rows, 13)
    return devices.failed


def check_one(programs, device):
    """Two processes that share the device by Gloo, and a process alone that exchanges with itself by NCCL, which refuses
    two on one device."""
    devices = Devices(programs / "gimlet", 2, device, shared=True)
    devices.tell_equality(SHARED)
    if device == "cuda":
        done = run_to_end([programs / "gpu", "processes::", "--test-threads=1"], {})
        devices.failed |= done.returncode != 0
        print(done.stdout, flush=True)
    return devices.failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=pathlib.Path, required=True, help="the folder of `gimlet`, and of `gpu` for one GPU")
    parser.add_argument("--gpus", type=int, default=2, help="number of devices; two processes share one alone")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    args = parser.parse_args()
    sys.exit(1 if check(args.programs.resolve(), args.gpus, args.device) else 0)


if __name__ == "__main__":
    main()
