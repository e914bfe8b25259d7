"""Memory of each of several processes that train T5 1.1 with 99 million parameters and AdamW, as replicas, with ZeRO-1 and with ZeRO-3.

The state of a process is its peak resident memory (`VmHWM` of /proc) less that of a process that trains a tiny
model with the same program; the largest of the processes counts. Parameters, their gradients and the optimizer's
state are in it, and the copies of a checkpoint with `--saves`. Activations are small: rows are short.

Usage: python memory.py --gimlet BINARY --dir FOLDER [--processes 4] [--saves]
(from the root of the repository; `make build` makes BINARY, target/release/gimlet)
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import time

ENVIRONMENT = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0", "OMP_NUM_THREADS": "1"}
PARTITIONER = "partitioning.PjitPartitioner"
RULES = "partitioning.standard_logical_axis_rules"
LAYOUTS = {
    "replicas": {},
    "ZeRO-1": {f"{PARTITIONER}.spread_optimizer_state": True},
    "ZeRO-3": {f"{PARTITIONER}.logical_axis_rules": f"@{RULES}()", f"{RULES}.parameter_partitioning_dims": 2},
}
TINY = {f"network.T5Config.{name}": size for name, size in {
    "vocab_size": 2176, "emb_dim": 16, "num_heads": 4, "head_dim": 4, "mlp_dim": 16, "num_encoder_layers": 1,
    "num_decoder_layers": 1,
}.items()}
SAVES = {"utils.CheckpointConfig.save": "@utils.SaveCheckpointConfig()"}


def peaks(launcher):
    """Peak memory in bytes of each process that a launcher has started, read until they have ended."""
    found = {}
    while launcher.poll() is None:
        try:
            children = pathlib.Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text().split()
            for child in children:
                status = pathlib.Path(f"/proc/{child}/status").read_text()
                if peak := re.search(r"VmHWM:\s+(\d+) kB", status):
                    found[child] = 1024 * int(peak.group(1))
        except OSError:
            pass  # A process has ended meanwhile.
        time.sleep(0.01)
    return list(found.values())


def run(args, bindings):
    """The largest peak of the processes of a run, in bytes."""
    folder = pathlib.Path(args.dir) / "model"
    shutil.rmtree(folder, ignore_errors=True)
    words = [f"--gin.{name}={value}" for name, value in {"MODEL_DIR": f"'{folder}'", **bindings}.items()]
    command = [args.gimlet, "launch", f"--nproc_per_node={args.processes}", "train", "--gin_file=benches/memory.gin"]
    launcher = subprocess.Popen(command + words, env={**os.environ, **ENVIRONMENT}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    found = peaks(launcher)
    errors = launcher.communicate()[1]
    shutil.rmtree(folder, ignore_errors=True)
    if launcher.returncode != 0:
        raise SystemExit(errors.decode())
    assert len(found) == args.processes, f"{len(found)} processes of {args.processes}"
    return max(found)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gimlet", required=True)
    parser.add_argument("--dir", required=True)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--saves", action="store_true")
    args = parser.parse_args()

    saves = SAVES if args.saves else {}
    empty = run(args, {**TINY, **saves})
    print(f"a tiny model: {empty / 1e6:.0f} MB")
    whole = None
    for name, bindings in LAYOUTS.items():
        peak = run(args, {**bindings, **saves})
        state = peak - empty
        whole = whole or state
        print(f"{name:8} {peak / 1e6:6.0f} MB, {state / 1e6:6.0f} MB of state: {state / whole:.2f} of that of replicas", flush=True)


if __name__ == "__main__":
    main()
