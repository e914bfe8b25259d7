"""Prints what `src/schedule.rs` expects: the bits of T5X's learning rates.

Run with T5X at cc342d4 checked out: `python schedule.py T5X_DIR` (jax 0.10.2, numpy 2.x, CPU).
Only the function itself is taken from `t5x/utils.py`, so nothing else of T5X needs to import.
"""

import os
import pathlib
import sys

os.environ["JAX_PLATFORMS"] = "cpu"
import jax.numpy as jnp
import numpy as np

STEPS = (0, 1, 5, 69, 101, 250, 12_345, 1_000_001)
CASES = (
    dict(),
    dict(factors="constant * rsqrt_decay", base_learning_rate=1.0, warmup_steps=10_000),
    dict(factors="linear_decay", base_learning_rate=0.0005, warmup_steps=100, decay_factor=0.001),
    dict(
        factors="constant * linear_warmup * rsqrt_normalized_decay",
        base_learning_rate=0.3,
        warmup_steps=70,
    ),
    dict(factors="constant*decay_every", base_learning_rate=0.01, decay_factor=0.9, steps_per_decay=30),
    dict(
        factors="constant * constant * cosine_decay",
        base_learning_rate=0.1,
        warmup_steps=10,
        steps_per_cycle=200,
    ),
    dict(factors="linear_warmup * constant", base_learning_rate=0.01, warmup_steps=3, step_offset=100),
)

source = (pathlib.Path(sys.argv[1]) / "t5x/utils.py").read_text()
start = source.index("def create_learning_rate_scheduler")
names = {"jnp": jnp, "LearningRateCallable": object}
exec(source[start : source.index("\ndef ", start)], names)
for case in CASES:
    schedule = names["create_learning_rate_scheduler"](**case)
    print(case, [int(np.float32(schedule(jnp.int32(step))).view(np.uint32)) for step in STEPS])
