"""Training steps of one layer of BERT's base size over rows of 1,024 to 16,384 tokens: attention by BigBird's blocks of 64 (three random
ones, three neighbours, two that all read) and to all positions by `gimlet bench train_step`, and transformers' BigBird. One row, 1,024 ids,
float32; CPU seconds of the second step, and the peak of the process. The two blocks of
transformers are the first and the last one.

Usage: python compare_big_bird.py --peer_python PYTHON --gimlet BINARY [--longest 16384]
"""

import argparse
import pathlib

from compare_train_step import figures, run
from ours import command

LAYOUT = "bert.BigBirdSparsityConfig"
SPARSE = [f"bert.BertConfig.sparsity=@{LAYOUT}()", f"{LAYOUT}.num_heads=12", f"{LAYOUT}.block=64",
          f"{LAYOUT}.num_random_blocks=3", f"{LAYOUT}.num_sliding_window_blocks=3", f"{LAYOUT}.num_global_blocks=2",
          f"{LAYOUT}.different_layout_per_head=True"]
# Scores of all pairs of 16,384 positions need 13 GB, and their gradients as much.
LONGEST_DENSE = 8192
IDS = ["bert.BertConfig.vocab_size=1024", "seqio.PassThroughVocabulary.size=1024"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--peer_python", required=True)
    parser.add_argument("--gimlet", required=True)
    parser.add_argument("--longest", type=int, default=16384)
    args = parser.parse_args()
    script = str(pathlib.Path(__file__).with_name("train_step.py"))
    print("| tokens | by blocks | all positions | transformers' BigBird |\n|---|---|---|---|")
    length = 1024
    while length <= args.longest:
        ours = lambda bindings: command(args.gimlet, "train_step", "float32", size="bert_1_layer", rows=1, inputs=length,
                                        steps=1, warmup=1, bindings=[*IDS, *bindings])
        theirs = [args.peer_python, script, "--size=bert_big_bird", "--steps=2", "--batch_size=1", f"--inputs_length={length}"]
        cells = []
        for words in (ours(SPARSE), ours([]), theirs):
            if length > LONGEST_DENSE and words == ours([]):
                cells.append("")
                continue
            _, cpu, peak = figures(run(words))
            cells.append(f"{cpu[-1]:.2f} s, {peak:,.0f} MB")
        print(f"| {length:,} | {' | '.join(cells)} |", flush=True)
        length *= 2


main()
