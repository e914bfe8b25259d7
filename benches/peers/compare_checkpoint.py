"""Saves and restores the state of a T5 1.1 model with Adafactor's factored states by `cargo bench --bench checkpoint`,
T5X's own Checkpointer and Orbax in turn, beside a plain file of as many bytes; prints throughputs and peak memory.

Each operation is a process of its own. Before one that reads, the files are dropped from the page cache; before all, 4 GB
of memory are touched. Every process ends when its bytes are on the disk, so none pays for the one before.

Usage: python compare_checkpoint.py --dir=EMPTY_FOLDER --bench=BINARY [--peer_python=PYTHON --t5x=CHECKOUT]
(`cargo bench --no-default-features --bench checkpoint --no-run` names the binary; `checkpoint.py` says what the peers
need. The numbers belong to the disk that holds the folder.)
"""

import argparse
import collections
import json
import os
import pathlib
import shutil
import statistics
import subprocess

SCRIPT = str(pathlib.Path(__file__).with_name("checkpoint.py"))


def shapes(megabytes):
    """Names and shapes: as T5 1.1 base has them, or a quarter as wide, with as many layers as fill the size."""
    emb_dim = 768 if megabytes >= 400 else 192
    mlp_dim, vocab = emb_dim * 8 // 3, 32128
    kernels = {f"attention/{part}/kernel": (emb_dim, emb_dim) for part in ("query", "key", "value", "out")}
    mlp = {"mlp/wi_0/kernel": (emb_dim, mlp_dim), "mlp/wi_1/kernel": (emb_dim, mlp_dim),
           "mlp/wo/kernel": (mlp_dim, emb_dim)}
    cross = {f"encoder_decoder_{name}": shape for name, shape in kernels.items()}
    norms = {f"pre_{part}_layer_norm/scale": (emb_dim,) for part in ("attention", "mlp")}
    sides = {"encoder": {**kernels, **mlp, **norms}, "decoder": {**kernels, **cross, **mlp, **norms}}
    params = {"token_embedder/embedding": (vocab, emb_dim), "decoder/logits_dense/kernel": (emb_dim, vocab)}
    size = lambda arrays: sum(4 * rows * (columns[0] if columns else 1) for rows, *columns in arrays.values())
    layer = sum(size(arrays) for arrays in sides.values())
    for index in range(max(1, round((megabytes * 1e6 - size(params)) / layer))):
        for side, arrays in sides.items():
            params.update({f"{side}/layers_{index}/{name}": shape for name, shape in arrays.items()})
    for name, shape in params.items():
        yield f"target/{name}", shape
        factored = len(shape) == 2
        slots = {"m": (1,), "v": (1,) if factored else shape,
                 "v_row": (min(shape),) if factored else (1,), "v_col": (max(shape),) if factored else (1,)}
        for slot, slot_shape in slots.items():
            yield f"state/param_states/{name}/{slot}", slot_shape


def run(command):
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def drop_from_cache(folder):
    for file in pathlib.Path(folder).rglob("*"):
        if file.is_file():
            descriptor = os.open(file, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dir", required=True)
    parser.add_argument("--bench", required=True)
    parser.add_argument("--peer_python")
    parser.add_argument("--t5x")
    parser.add_argument("--codecs", nargs="+", default=["none"], help="none, gzip1, zstd1: names with levels")
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    root = pathlib.Path(args.dir).absolute()
    root.mkdir(parents=True, exist_ok=True)
    arrays = root / "arrays.json"
    arrays.write_text(json.dumps(list(shapes(args.megabytes))))

    ours = lambda operation: [args.bench, f"--operation={operation}"]
    pairs = {"plain file": (ours("plain_write"), ours("plain_read"))}
    for codec in args.codecs:
        pairs[f"gimlet {codec}"] = tuple([*ours(operation), f"--codec={codec}"] for operation in ("save", "restore"))
    for peer in ("t5x", "orbax") if args.peer_python else ():
        checkout = [f"--t5x={args.t5x}"] if peer == "t5x" else []
        if peer == "orbax" or args.t5x:
            pairs[peer] = tuple([args.peer_python, SCRIPT, f"--peer={peer}", f"--operation={operation}", *checkout]
                                for operation in ("save", "restore"))
    found = collections.defaultdict(list)
    for index in range(args.rounds):
        for name in list(pairs) if index % 2 == 0 else list(pairs)[::-1]:
            folder = root / "state"
            folder.mkdir()
            for side, command in zip(("write", "read"), pairs[name]):
                drop_from_cache(folder)
                record = run([*command, f"--arrays={arrays}", f"--dir={folder}"])
                record["rate"] = record["bytes"] / 1e6 / record["seconds"]
                found[name, side].append(record)
            files = [file.stat().st_size for file in folder.rglob("*") if file.is_file()]
            found[name, "stored"].append(sum(files) / record["bytes"])
            shutil.rmtree(folder)
    for side in ("write", "read"):
        for name in pairs:
            records = found[name, side]
            rates = [record["rate"] for record in records]
            ratios = ", ".join(
                f"{statistics.median(rate / other['rate'] for rate, other in zip(rates, found[peer, side])):.2f}x {peer}"
                for peer in pairs if peer != name and not peer.startswith("gimlet") and name.startswith("gimlet"))
            stall = f", steps wait {statistics.median(r['stall_seconds'] for r in records):.3f} s, the first saving " \
                f"{statistics.median(r['bytes'] / 1e6 / r['first_seconds'] for r in records):.1f} MB/s" \
                if "stall_seconds" in records[0] else ""
            print(f"{side:5} {name:14}: {statistics.median(rates):7.1f} MB/s ({min(rates):.1f} to {max(rates):.1f}), "
                  f"cpu {statistics.median(r['cpu_seconds'] for r in records):.2f} s, "
                  f"peak {max(r['peak_rss_mb'] for r in records):.0f} MB, "
                  f"stored {statistics.median(found[name, 'stored']):.3f}{stall}" + (f"; {ratios}" if ratios else ""))


if __name__ == "__main__":
    main()
