"""The memory of training steps that the dry run foretells, beside the peaks of processes that make them, by the length of the inputs.

Each row is a fresh process of `gimlet bench train_step` on narrow models with two layers in each stack, one row a batch, 64 targets and
two threads: two steps, whose largest resident memory counts (`ru_maxrss`). Both numbers contain the process itself; `step` compares
what they have beyond the smallest process of the table. Prints a table and the largest error.

Usage: python benches/foretold.py --gimlet BINARY [--lengths 64 1024 ...] [--families t5 ...] [--policies none full] [--dtypes float32 ...]
(from the root of the repository; `make build` makes BINARY, target/release/gimlet)
"""

import argparse
import json
import os
import subprocess

ENVIRONMENT = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0", "OMP_NUM_THREADS": "2"}
TARGETS = 64
# Narrow, so that 16,384 inputs fit into 8 GB.
SIZES = {"emb_dim": 64, "num_heads": 2, "head_dim": 32, "mlp_dim": 128, "vocab_size": 384}
MACROS = {"EMBED_DIM": 64, "NUM_HEADS": 2, "HEAD_DIM": 32, "MLP_DIM": 128, "NUM_EMBEDDINGS": 384, "NUM_ENCODER_LAYERS": 2,
          "NUM_DECODER_LAYERS": 2}
STACKS = {"num_encoder_layers": 2, "num_decoder_layers": 2}
T5, FLAXFORMER = "t5x/examples", "flaxformer/t5x/configs"


def t5x(model, config="T5Config", layers=STACKS, **more):
    """A model of T5X's modules: its files, and its bindings by dtype and remat policy."""
    def bindings(dtype, policy):
        sizes = {**SIZES, **layers, **more, "dtype": f"'{dtype}'"}
        if config == "T5Config":
            sizes["remat_policy"] = f"'{policy}'"
        elif policy != "none":
            return None
        return {f"network.{config}.{name}": size for name, size in sizes.items()}
    return [f"{T5}/{model}.gin", "benches/t5_1_1.gin"], bindings


def flaxformer(model, run="t5_1_1", **more):
    """A model of flaxformer's modules."""
    def bindings(dtype, policy):
        dtypes = {"ACTIVATION_DTYPE": f"'{dtype}'"}
        if run == "moe":
            dtypes["MOE_TRUNCATED_DTYPE"] = f"'{dtype}'"
        return {**MACROS, **dtypes, **more} if policy == "none" else None
    return [f"{FLAXFORMER}/{model}.gin", f"benches/{run}.gin"], bindings


FAMILIES = {
    "t5": t5x("t5/t5_1_1/small"),
    "umt5": t5x("t5/t5_1_1/small", relpos_bias_per_layer=True),
    "one-layer": t5x("t5/t5_1_1/small", layers={"num_encoder_layers": 1, "num_decoder_layers": 1}),
    "scalable": t5x("scalable_t5/t5_1_1/small"),
    "decoder": t5x("decoder_only/models/base", "TransformerConfig", {"num_layers": 2}),
    "flaxformer": flaxformer("t5/models/t5_1_1_base"),
    "local": flaxformer("longt5/models/longt5_1_1_base"),
    "global": flaxformer("longt5/models/longt5_1_1_transient_global_base"),
    "moe": flaxformer("moe/models/tokens_choose_small", "moe", NUM_EXPERTS=4, NUM_ENCODER_SPARSE_LAYERS=1, NUM_DECODER_SPARSE_LAYERS=1),
}


def measured(gimlet, family, length, bindings, rows):
    files = [f"--gin_file={file}" for file in FAMILIES[family][0]]
    # A decoder reads one sequence.
    lengths = {"targets": length} if family == "decoder" else {"inputs": length, "targets": TARGETS}
    bound = {**bindings, "TASK_FEATURE_LENGTHS": lengths, "BATCH_SIZE": rows}
    words = [f"--gin.{name}={value}" for name, value in bound.items()]
    command = [gimlet, "bench", "train_step", "--json", "--steps=1", "--warmup=1", *files, *words]
    done = subprocess.run(command, env={**os.environ, **ENVIRONMENT}, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
    record = json.loads(done.stdout.splitlines()[-1])
    return record["peak_memory_bytes"], record["foretold_memory_bytes"], record["foretold_process_bytes"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gimlet", required=True)
    parser.add_argument("--lengths", type=int, nargs="+", default=[64, 1024, 4096, 8192, 12000, 16384])
    parser.add_argument("--families", nargs="+", default=list(FAMILIES))
    parser.add_argument("--policies", nargs="+", default=["none", "minimal", "full"])
    parser.add_argument("--dtypes", nargs="+", default=["float32", "bfloat16"])
    parser.add_argument("--rows", type=int, default=1)
    args = parser.parse_args()

    print("family      dtype     remat    inputs   measured   foretold   error    step")
    worst = 0.0
    for family in args.families:
        for dtype in args.dtypes:
            for policy in args.policies:
                bindings = FAMILIES[family][1](dtype, policy)
                for length in args.lengths if bindings else []:
                    peak, foretold, process = measured(args.gimlet, family, length, bindings, args.rows)
                    error, beyond = foretold / peak - 1, (foretold - process) / (peak - process) - 1
                    worst = max(worst, abs(error))
                    print(f"{family:11} {dtype:9} {policy:8} {length:6,} {peak / 1e6:7,.0f} MB {foretold / 1e6:7,.0f} MB "
                          f"{error:+7.1%} {beyond:+7.1%}", flush=True)
    print(f"the largest error is {worst:.1%}")


if __name__ == "__main__":
    main()
