"""The memory and time of a training step of a small LongT5 by the length of its inputs: Gimlet's, transformers', and Gimlet's
with full attention (T5 1.1). Prints a table.

Batch 1, 64 targets, float32, Adafactor, no dropout, two threads; each cell is a fresh process of two steps, of which the second
one is timed. Needs torch 2.11.0 and transformers 4.57.6 for PYTHON.

Usage: python benches/peers/compare_longt5.py --peer_python PYTHON --gimlet BINARY [--lengths 1024 2048 ...]
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time

ENVIRONMENT = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0", "OMP_NUM_THREADS": "2"}
TARGETS = 64
LONGT5 = "flaxformer/t5x/configs/longt5/models"
T5 = "flaxformer/t5x/configs/t5/models"
KINDS = {
    "local": f"{LONGT5}/longt5_1_1_base.gin",
    "transient-global": f"{LONGT5}/longt5_1_1_transient_global_base.gin",
    "full": f"{T5}/t5_1_1_base.gin",
}


def child(kind, length):
    """Two steps of transformers' model."""
    import torch
    from transformers import LongT5Config, LongT5ForConditionalGeneration
    from transformers.optimization import Adafactor

    torch.set_num_threads(2)
    torch.set_flush_denormal(True)
    config = LongT5Config(
        vocab_size=384, d_model=256, d_kv=64, d_ff=512, num_layers=2, num_decoder_layers=1, num_heads=4,
        feed_forward_proj="gated-gelu", dropout_rate=0.0, tie_word_embeddings=False, use_cache=False,
        encoder_attention_type=kind, pad_token_id=0, eos_token_id=1, decoder_start_token_id=0)
    model = LongT5ForConditionalGeneration(config).train()
    optimizer = Adafactor(model.parameters(), lr=1e-2, scale_parameter=True, relative_step=False, warmup_init=False)
    inputs, targets = (torch.randint(2, 300, (1, size)) for size in (length, TARGETS))
    for _ in range(2):
        start = time.perf_counter()
        model(input_ids=inputs, labels=targets).loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        seconds = time.perf_counter() - start
    print(json.dumps({"seconds": seconds, "mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))


def ours(gimlet, kind, length):
    command = [gimlet, "bench", "train_step", f"--gin_file={KINDS[kind]}", "--gin_file=benches/longt5.gin", "--json",
               "--steps=1", "--warmup=1", f"--gin.TASK_FEATURE_LENGTHS={{'inputs': {length}, 'targets': {TARGETS}}}"]
    record = run(command)
    return {"seconds": record["step_seconds"][0], "mb": record["peak_memory_bytes"] / 2**20}


def run(command):
    environment = {**os.environ, **ENVIRONMENT}
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return json.loads([line for line in done.stdout.splitlines() if line.startswith("{")][-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer_python")
    parser.add_argument("--gimlet")
    parser.add_argument("--lengths", type=int, nargs="+", default=[1024, 2048, 4096, 8192, 16384])
    parser.add_argument("--child", nargs=2, metavar=("KIND", "LENGTH"), help="for the script itself")
    args = parser.parse_args()
    if args.child:
        return child(args.child[0], int(args.child[1]))
    theirs = lambda kind, length: run([args.peer_python, __file__, "--child", kind, str(length)])
    columns = [
        ("local, ours", lambda length: ours(args.gimlet, "local", length)),
        ("local, theirs", lambda length: theirs("local", length)),
        ("transient global, ours", lambda length: ours(args.gimlet, "transient-global", length)),
        ("transient global, theirs", lambda length: theirs("transient-global", length)),
        # The square of more takes tens of gigabytes.
        ("full, ours", lambda length: ours(args.gimlet, "full", length) if length <= 8192 else None),
    ]
    print("| inputs |" + "".join(f" {name} |" for name, _ in columns))
    print("|" + " --- |" * (len(columns) + 1))
    for length in args.lengths:
        cells = [measure(length) for _, measure in columns]
        shown = [f" {it['mb']:.0f} MB, {it['seconds']:.1f} s |" if it else " |" for it in cells]
        print(f"| {length} |" + "".join(shown), flush=True)


if __name__ == "__main__":
    sys.exit(main())
