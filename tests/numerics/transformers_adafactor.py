"""Writes transformers_adafactor.json: what transformers' Adafactor makes of a few steps, for transformers_adafactor.rs.

Run as `python transformers_adafactor.py > transformers_adafactor.json` (transformers 5.23.0, torch 2.11.0, CPU, float32).
Parameters and gradients come from `noise` of samples.py, a stack as one parameter for each layer, as transformers
has them. A schedule of the learning rate is transformers' own `constant_with_warmup`. State has T5X's names: `v` is
transformers' `exp_avg_sq`, `m` its `exp_avg`, and `v_row` that of the shorter side of a matrix.
"""

import json

import numpy as np
import torch
from samples import noise, sample
from transformers import get_constant_schedule_with_warmup
from transformers.optimization import Adafactor

# Shapes and logical axes.
PARAMS = {
    "kernel": [[6, 4], ["embed", "mlp"]],
    "embedding": [[5, 8], ["vocab", "embed"]],
    "scale": [[6], ["embed"]],
    "stack": [[4, 3, 6], ["embed", "layers", "mlp"]],
    "tall_stack": [[6, 2, 4], ["mlp", "layers", "embed"]],
}
CASES = [
    # Those of a fine-tuning with a learning rate of its own; defaults; and all others.
    {"lr": 1e-4, "relative_step": False, "scale_parameter": False},
    {"lr": 1e-3, "warmup_steps": 3, "relative_step": False},
    {},
    {"warmup_init": True, "beta1": 0.9},
    {"lr": 0.02, "relative_step": False, "weight_decay": 0.5, "clip_threshold": 0.25},
    {"lr": 0.02, "relative_step": False, "scale_parameter": False, "weight_decay": 0.5},
    {"eps": [1e-3, 0.5], "decay_rate": -0.5, "weight_decay": 0.1, "beta1": 0.5},
]
GRADIENT_SCALES = [1.0, 10.0, 0.1, 3.0]
# Those of Gimlet's Trainer, which have no effect here.
FIRST_STEP = 1000
LEARNING_RATES = [7.0, 7.0, 7.0, 7.0]


def layers(name, array):
    """The parameters of transformers for one of T5X's."""
    return [array[:, layer] for layer in range(array.shape[1])] if "stack" in name else [array]


def joined(name, arrays, axis):
    return np.stack(arrays, axis) if "stack" in name else arrays[0]


def state_of(name, states):
    """The state of one parameter of T5X's from those of its layers."""
    find = lambda key: [state[key].numpy() for state in states if key in state]
    out = {}
    for slot, key, axis in [("m", "exp_avg", 1), ("v", "exp_avg_sq", 1)]:
        if find(key):
            out[slot] = joined(name, find(key), axis)
    if find("exp_avg_sq_row"):
        first, second = find("exp_avg_sq_row"), find("exp_avg_sq_col")
        names = ["v_row", "v_col"] if len(first[0]) <= len(second[0]) else ["v_col", "v_row"]
        # The layers lie between the two sides of a kernel.
        out |= {names[0]: joined(name, first, 1), names[1]: joined(name, second, 0)}
    return out


def run(settings):
    settings = dict(settings)
    warmup_steps = settings.pop("warmup_steps", None)
    params = {
        name: [torch.nn.Parameter(torch.tensor(part.copy())) for part in layers(name, noise(shape, i))]
        for i, (name, (shape, _)) in enumerate(PARAMS.items())
    }
    optimizer = Adafactor([part for parts in params.values() for part in parts], **settings)
    schedule = warmup_steps and get_constant_schedule_with_warmup(optimizer, warmup_steps)
    steps = []
    for step, scale in enumerate(GRADIENT_SCALES):
        for i, (name, (shape, _)) in enumerate(PARAMS.items()):
            grad = noise(shape, 100 * (step + 1) + i) * np.float32(scale)
            for part, own in zip(params[name], layers(name, grad)):
                part.grad = torch.tensor(own.copy())
        optimizer.step()
        if schedule:
            schedule.step()
        record = {}
        for name, parts in params.items():
            record[name] = sample(joined(name, [part.detach().numpy() for part in parts], 1), 9)
            for slot, array in state_of(name, [optimizer.state[part] for part in parts]).items():
                record[f"{name}/{slot}"] = sample(array, 9)
        steps.append(record)
    return steps


def main():
    cases = [
        {"name": f"case {i}", "first_step": FIRST_STEP, "settings": settings, "params": PARAMS, "steps": run(settings)}
        for i, settings in enumerate(CASES)
    ]
    text = json.dumps({"learning_rates": LEARNING_RATES, "gradient_scales": GRADIENT_SCALES, "cases": cases})
    print(text.replace(": ", ":").replace(", ", ","))


main()
