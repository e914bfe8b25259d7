"""Writes optax_rules.json: what optax makes of a few steps, for optax_rules.rs.

Run as `python optax_rules.py > optax_rules.json` (optax 0.2.8, jax 0.10.2, flax 0.12.8, CPU, float32, op by op).
State has the names that T5X's `OptaxWrapper.state_dict` gives it: flax's state dict without its empty
parts. Parameters and gradients come from `noise` of samples.py; `still` starts at zero. Of each
array up to about 8 elements are kept, evenly spaced, with its root mean square.
"""

import json
import os

os.environ["JAX_PLATFORMS"] = "cpu"
import jax.numpy as jnp
import numpy as np
import optax
from flax import serialization, traverse_util
from samples import noise, sample

SHAPES = {"kernel": [2, 3], "scale": [4], "scalar": [], "still": [2]}
COSINE = {"init_value": 0.001, "peak_value": 0.02, "warmup_steps": 2, "decay_steps": 6, "end_value": 0.004}
# An optimizer, whether a clip of the gradients' norm comes first, and its settings.
CASES = [
    ["adam", False, {"learning_rate": 0.01}],
    ["adam", True, {"learning_rate": COSINE, "b1": 0.5, "nesterov": True, "eps_root": 1e-4}],
    ["adam", False, {"learning_rate": 0.01, "mu_dtype": "bfloat16"}],
    ["lion", False, {"learning_rate": 0.001}],
    ["lion", True, {"learning_rate": COSINE, "b1": 0.8, "weight_decay": 0.1}],
    ["lion", False, {"learning_rate": 0.001, "mu_dtype": "bfloat16"}],
    ["sgd", False, {"learning_rate": 0.01}],
    ["sgd", True, {"learning_rate": COSINE, "momentum": 0.9}],
    ["sgd", False, {"learning_rate": 0.01, "momentum": 0.8, "nesterov": True}],
    ["sgd", False, {"learning_rate": 0.01, "momentum": 0.9, "accumulator_dtype": "bfloat16"}],
    ["adagrad", False, {"learning_rate": 0.1}],
    ["adagrad", True, {"learning_rate": COSINE, "initial_accumulator_value": 0.0, "eps": 1e-3}],
    ["rmsprop", False, {"learning_rate": 0.01}],
    ["rmsprop", False, {"learning_rate": 0.01, "eps_in_sqrt": False, "eps": 1e-3, "initial_scale": 0.5}],
    ["rmsprop", False, {"learning_rate": 0.01, "centered": True, "eps": 1e-3, "momentum": 0.9, "nesterov": True}],
    ["rmsprop", True, {"learning_rate": COSINE, "momentum": 0.5, "bias_correction": True}],
    ["lamb", False, {"learning_rate": 0.01}],
    ["lamb", True, {"learning_rate": COSINE, "weight_decay": 0.1, "eps_root": 1e-4}],
    ["lars", False, {"learning_rate": 0.5}],
    ["lars", False, {"learning_rate": COSINE, "weight_decay": 0.1, "eps": 0.1, "nesterov": True}],
    ["lars", True, {"learning_rate": 0.1, "weight_decay_mask": False, "trust_ratio_mask": False, "weight_decay": 1.0}],
    ["adabelief", False, {"learning_rate": 0.01}],
    ["adabelief", True, {"learning_rate": COSINE, "nesterov": True, "eps": 1e-3}],
    ["radam", False, {"learning_rate": 0.01}],
    ["radam", True, {"learning_rate": COSINE, "b2": 0.9, "threshold": 4.5}],
    ["radam", False, {"learning_rate": 0.01, "b2": 0.8, "nesterov": True, "eps_root": 1e-4}],
    ["yogi", False, {"learning_rate": 0.01}],
    ["yogi", True, {"learning_rate": COSINE, "b1": 0.5, "b2": 0.9}],
    ["fromage", False, {"learning_rate": 0.01}],
    ["fromage", True, {"learning_rate": COSINE, "min_norm": 0.5}],
    ["noisy_sgd", False, {"learning_rate": 0.01, "key": 3}],
    ["noisy_sgd", True, {"learning_rate": COSINE, "eta": 1.0, "gamma": 0.9, "seed": -5}],
]
GRADIENT_SCALES = [1.0, 10.0, 0.1, 3.0, 0.0]


def run(name, clipped, settings):
    rate = settings["learning_rate"]
    rate = optax.warmup_cosine_decay_schedule(**rate) if isinstance(rate, dict) else rate
    optimizer = getattr(optax, name)(**settings | {"learning_rate": rate})
    if clipped:
        optimizer = optax.chain(optax.clip_by_global_norm(0.5), optimizer)
    weights = {n: jnp.asarray(noise(s, i) * (n != "still")) for i, (n, s) in enumerate(SHAPES.items())}
    state = optimizer.init(weights)
    steps = []
    for step, scale in enumerate(GRADIENT_SCALES):
        shapes = enumerate(SHAPES.items())
        grads = {n: jnp.asarray(noise(s, 100 * (step + 1) + i) * np.float32(scale)) for i, (n, s) in shapes}
        updates, state = optimizer.update(grads, state, weights)
        weights = optax.apply_updates(weights, updates)
        tree = traverse_util.flatten_dict(serialization.to_state_dict(state), sep="/")
        # T5X cannot save a key; it follows from the count.
        arrays = {name: sample(array, 7) for name, array in tree.items() if not name.endswith(("count", "key"))}
        counts = {name: int(count) for name, count in tree.items() if name.endswith("count")}
        steps.append({"arrays": arrays | {name: sample(w, 7) for name, w in weights.items()}, "counts": counts})
    return steps


def main():
    cases = [{"optimizer": n, "clipped": c, "settings": s, "steps": run(n, c, s)} for n, c, s in CASES]
    print(json.dumps({"shapes": SHAPES, "gradient_scales": GRADIENT_SCALES, "cases": cases}).replace(" ", ""))


main()
