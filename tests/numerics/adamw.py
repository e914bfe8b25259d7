"""Writes adamw.json: what optax makes of a few steps, for adamw.rs.

Run as `python adamw.py > adamw.json` (optax 0.2.8, jax 0.10.2, flax 0.12.8, CPU, float32, op by op).
State has the names that T5X's `OptaxWrapper.state_dict` gives it: flax's state dict without its empty
parts. Parameters and gradients come from `noise` of samples.py, which adafactor.rs has too. Of each array
about 8 elements are kept, evenly spaced, with its root mean square.
"""

import json
import os

os.environ["JAX_PLATFORMS"] = "cpu"
import jax.numpy as jnp
import numpy as np
import optax
from flax import serialization, traverse_util
from samples import noise, sample

SHAPES = {"kernel": [24, 16], "scale": [64], "scalar": []}
COSINE = {"init_value": 0.001, "peak_value": 0.02, "warmup_steps": 2, "decay_steps": 6, "end_value": 0.004}
# Clips as [name, limit], then AdamW's settings.
CASES = [
    ["alone", None, {"learning_rate": 0.01}],
    ["pile", [["clip_by_global_norm", 1.0]], {"learning_rate": 0.0001, "weight_decay": 0.01}],
    ["norm_below", [["clip_by_global_norm", 1e6]], {"learning_rate": 0.01}],
    ["wmt", [["clip", 0.3]], {"learning_rate": COSINE}],
    ["both", [["clip", 0.4], ["clip_by_global_norm", 2.0]], {"learning_rate": 0.01, "b1": 0.5, "b2": 0.9}],
    ["scheduled", None, {"learning_rate": COSINE | {"exponent": 2.0}, "eps": 1e-3}],
    ["nesterov", [], {"learning_rate": 0.01, "nesterov": True}],
    ["eps_root", [], {"learning_rate": 0.01, "eps_root": 1e-2, "weight_decay": 0.0}],
    ["narrow_mu", None, {"learning_rate": 0.01, "mu_dtype": "bfloat16"}],
]
GRADIENT_SCALES = [1.0, 10.0, 0.1, 3.0, 0.0]


def schedule(rate):
    return optax.warmup_cosine_decay_schedule(**rate) if isinstance(rate, dict) else rate


def run(clips, settings):
    settings = settings | {"learning_rate": schedule(settings["learning_rate"])}
    optimizer = optax.adamw(**settings)
    if clips is not None:
        optimizer = optax.chain(*[getattr(optax, name)(limit) for name, limit in clips], optimizer)
    weights = {name: jnp.asarray(noise(shape, i)) for i, (name, shape) in enumerate(SHAPES.items())}
    state = optimizer.init(weights)
    steps = []
    for step, scale in enumerate(GRADIENT_SCALES):
        shapes = enumerate(SHAPES.items())
        grads = {n: jnp.asarray(noise(s, 100 * (step + 1) + i) * np.float32(scale)) for i, (n, s) in shapes}
        updates, state = optimizer.update(grads, state, weights)
        weights = optax.apply_updates(weights, updates)
        tree = traverse_util.flatten_dict(serialization.to_state_dict(state), sep="/")
        arrays = {name: sample(array, 9) for name, array in tree.items() if not name.endswith("/count")}
        counts = {name: int(count) for name, count in tree.items() if name.endswith("/count")}
        steps.append({"arrays": arrays | {name: sample(w, 9) for name, w in weights.items()}, "counts": counts})
    return steps


def main():
    cases = [{"name": n, "clips": c, "settings": s, "steps": run(c, s)} for n, c, s in CASES]
    rates = [COSINE, COSINE | {"warmup_steps": 0}, COSINE | {"init_value": 0.02, "exponent": 0.5}]
    rate = lambda spec, step: float(f"{float(schedule(spec)(jnp.int32(step))):.9g}")
    schedules = [{"spec": spec, "rates": [rate(spec, step) for step in range(9)]} for spec in rates]
    record = {"shapes": SHAPES, "gradient_scales": GRADIENT_SCALES, "cases": cases, "schedules": schedules}
    print(json.dumps(record).replace(" ", ""))


main()
