"""Writes block_layouts.json: layouts of blocks that DeepSpeed draws, and the next number of Python's generator after each.

Run as `python block_layouts.py`, with Python 3.9 and the package deepspeed 0.9.5. Each row of a head's layout is a word of 0
and 1.
"""

import json
import pathlib
import random

from deepspeed.ops.sparse_attention import sparsity_config

# The class without its ending, the length of rows, the seed, and the arguments.
CASES = [
    ("Dense", 96, 1, dict(num_heads=2, block=16)),
    ("Fixed", 160, 1, dict(num_heads=2, block=16)),
    ("Fixed", 88, 1, dict(
        num_heads=4, block=8, different_layout_per_head=True, num_local_blocks=4, num_global_blocks=1,
        num_different_global_patterns=4, horizontal_global_attention=True,
    )),
    ("Fixed", 176, 1, dict(num_heads=2, block=16, num_local_blocks=4, num_global_blocks=2, attention='unidirectional')),
    ("Variable", 128, 3, dict(num_heads=2, block=16)),
    ("Variable", 96, 4, dict(
        num_heads=3, block=8, different_layout_per_head=True, num_random_blocks=2, local_window_blocks=[1, 2, 3],
        global_block_indices=[0, 6], global_block_end_indices=[1, 20], horizontal_global_attention=True,
    )),
    ("BigBird", 160, 5, dict(num_heads=4, block=16)),
    ("BigBird", 512, 6, dict(
        num_heads=12, block=16, different_layout_per_head=True, num_sliding_window_blocks=1, num_global_blocks=1,
        num_random_blocks=1,
    )),
    ("BigBird", 104, 7, dict(
        num_heads=3, block=8, different_layout_per_head=True, num_random_blocks=3, num_sliding_window_blocks=4,
        num_global_blocks=2,
    )),
    ("BSLongformer", 160, 1, dict(num_heads=2, block=16, num_sliding_window_blocks=5, global_block_indices=[0, 3])),
    ("BSLongformer", 80, 1, dict(num_heads=2, block=8, global_block_indices=[1, 7], global_block_end_indices=[3, 30])),
    ("LocalSlidingWindow", 128, 1, dict(num_heads=2, block=16, num_sliding_window_blocks=5)),
    ("LocalSlidingWindow", 128, 1, dict(num_heads=2, block=16, num_sliding_window_blocks=4, attention='bidirectional')),
]


def case(name, seq_len, seed, arguments):
    """The layout of a class with these arguments."""
    name += "SparsityConfig"
    random.seed(seed)
    layout = getattr(sparsity_config, name)(**arguments).make_layout(seq_len)
    words = [" ".join("".join(map(str, row)) for row in head) for head in layout.tolist()]
    return {
        "config": name, "arguments": arguments, "seq_len": seq_len, "seed": seed, "layout": words,
        "next_random": random.random(),
    }


lines = ",\n".join(json.dumps(case(*values)) for values in CASES)
pathlib.Path(__file__).with_name("block_layouts.json").write_text(f"[\n{lines}\n]\n")
