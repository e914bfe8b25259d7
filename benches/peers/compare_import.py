"""Reads a file of safetensors with the tensors of a T5 1.1 by `cargo bench --bench checkpoint` and by the package
`safetensors`, in turn and from the page cache; prints medians.

The package maps the file and copies nothing: its tensors are the page cache's bytes, which come in when they are first
used. So it is measured twice: as it returns, and with each tensor copied into memory of its own, as ours are. Ours are
transposed besides, to T5X's order of axes.

Usage: python compare_import.py --dir=FOLDER --bench=BINARY [--megabytes=1000] [--rounds=7]
(`cargo bench --no-default-features --bench checkpoint --no-run` names the binary; torch and safetensors are needed.)
"""

import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import time


def tensors(megabytes):
    """Names and shapes of T5 1.1 base in Hugging Face's order of axes, with as many layers as fill the size."""
    emb_dim, mlp_dim, vocab = 768, 2048, 32128
    yield "shared.weight", (vocab, emb_dim)
    yield "lm_head.weight", (vocab, emb_dim)
    left = megabytes * 1e6 / 4 - 2 * vocab * emb_dim
    index = 0
    while left > 0:
        layer = {}
        for side, attentions in (("encoder", ["SelfAttention"]), ("decoder", ["SelfAttention", "EncDecAttention"])):
            block = f"{side}.block.{index}.layer"
            for place, attention in enumerate(attentions):
                for part in "qkvo":
                    layer[f"{block}.{place}.{attention}.{part}.weight"] = (emb_dim, emb_dim)
                layer[f"{block}.{place}.layer_norm.weight"] = (emb_dim,)
            last = len(attentions)
            for part, shape in (("wi_0", (mlp_dim, emb_dim)), ("wi_1", (mlp_dim, emb_dim)), ("wo", (emb_dim, mlp_dim))):
                layer[f"{block}.{last}.DenseReluDense.{part}.weight"] = shape
            layer[f"{block}.{last}.layer_norm.weight"] = (emb_dim,)
        yield from layer.items()
        left -= sum(shape[0] * (shape[1] if len(shape) > 1 else 1) for shape in layer.values())
        index += 1
    for side in ("encoder", "decoder"):
        yield f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight", (32, 12)
        yield f"{side}.final_layer_norm.weight", (emb_dim,)


def write(file, megabytes):
    import torch
    from safetensors.torch import save_file

    torch.manual_seed(0)
    save_file({name: torch.randn(shape) for name, shape in tensors(megabytes)}, file)


def read(file, copies):
    import torch
    from safetensors.torch import load_file

    torch.zeros(1).clone()
    used = lambda: sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    start, cpu = time.perf_counter(), used()
    found = load_file(file)
    if copies:
        found = {name: tensor.clone() for name, tensor in found.items()}
    seconds, cpu = time.perf_counter() - start, used() - cpu
    size = sum(tensor.numel() * tensor.element_size() for tensor in found.values())
    print(json.dumps({"bytes": size, "seconds": seconds, "cpu_seconds": cpu}))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dir")
    parser.add_argument("--bench")
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--peer", choices=["returned", "copied"])
    parser.add_argument("--file")
    args = parser.parse_args()
    if args.peer:
        return read(args.file, args.peer == "copied")
    file = str(pathlib.Path(args.dir, "model.safetensors"))
    os.makedirs(args.dir, exist_ok=True)
    write(file, args.megabytes)
    peer = lambda which: [sys.executable, __file__, f"--peer={which}", f"--file={file}"]
    commands = {
        "gimlet": [args.bench, "--operation=import", f"--file={file}"],
        "safetensors as returned": peer("returned"),
        "safetensors copied": peer("copied"),
    }
    found = {name: [] for name in commands}
    for index in range(args.rounds):
        for name in list(commands) if index % 2 == 0 else list(commands)[::-1]:
            pathlib.Path(file).read_bytes()
            done = subprocess.run(commands[name], check=True, stdout=subprocess.PIPE, text=True)
            found[name].append(json.loads(done.stdout.splitlines()[-1]))
    os.remove(file)
    for name, records in found.items():
        seconds = [record["seconds"] for record in records]
        ratio = statistics.median(ours["seconds"] / record["seconds"] for ours, record in zip(found["gimlet"], records))
        print(f"{name:24}: {statistics.median(seconds):.3f} s ({min(seconds):.3f} to {max(seconds):.3f}), "
              f"{records[0]['bytes'] / 1e6:.0f} MB, cpu {statistics.median(r['cpu_seconds'] for r in records):.2f} s; "
              f"gimlet takes {ratio:.2f} times as long")


if __name__ == "__main__":
    main()
