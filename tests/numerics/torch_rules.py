"""Writes torch_rules.json: what torch makes of a few steps, for torch_rules.rs.

Run as `python torch_rules.py > torch_rules.json` (torch 2.15.0, numpy 2.4.6, CPU, float32, tensor by tensor).
Parameters and gradients come from `noise` of samples.py; `still` starts at zero. State has torch's names, `exp_avg/kernel`.
Of each array up to about 8 elements are kept, evenly spaced, with its root mean square.
"""

import json

import numpy as np
import torch
from samples import noise, sample

SHAPES = {"kernel": [2, 3], "scale": [4], "scalar": [], "still": [2]}
CASES = [
    ["Adam", {}],
    ["Adam", {"lr": 0.01, "betas": [0.5, 0.9], "eps": 1e-3, "weight_decay": 0.1}],
    ["AdamW", {}],
    ["AdamW", {"lr": 0.01, "betas": [0.5, 0.9], "weight_decay": 0.1}],
    ["RAdam", {}],
    ["RAdam", {"lr": 0.01, "betas": [0.5, 0.8], "eps": 1e-3, "weight_decay": 0.1}],
    ["NAdam", {}],
    ["NAdam", {"lr": 0.01, "betas": [0.5, 0.9], "momentum_decay": 0.5, "weight_decay": 0.1}],
    ["SGD", {}],
    ["SGD", {"lr": 0.01, "momentum": 0.9, "dampening": 0.5, "weight_decay": 0.1}],
    ["SGD", {"lr": 0.01, "momentum": 0.9, "nesterov": True}],
    ["RMSprop", {}],
    ["RMSprop", {"lr": 0.01, "alpha": 0.5, "eps": 1e-3, "momentum": 0.9, "centered": True, "weight_decay": 0.1}],
    ["Adagrad", {}],
    ["Adagrad", {"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.5, "eps": 1e-3}],
]
GRADIENT_SCALES = [1.0, 10.0, 0.1, 3.0, 0.0, 2.0, 1.0, 0.5]


def run(name, settings):
    weights = {n: torch.tensor(noise(s, i) * (n != "still")) for i, (n, s) in enumerate(SHAPES.items())}
    settings = {key: tuple(value) if key == "betas" else value for key, value in settings.items()}
    optimizer = getattr(torch.optim, name)(weights.values(), foreach=False, **settings)
    steps = []
    for step, scale in enumerate(GRADIENT_SCALES):
        for i, (n, s) in enumerate(SHAPES.items()):
            weights[n].grad = torch.tensor(noise(s, 100 * (step + 1) + i) * np.float32(scale))
        optimizer.step()
        arrays = {n: sample(w.numpy(), 7) for n, w in weights.items()}
        for n, w in weights.items():
            slots = {k: v for k, v in optimizer.state[w].items() if k not in ("step", "mu_product") and v is not None}
            arrays |= {f"{slot}/{n}": sample(array.numpy(), 7) for slot, array in slots.items()}
        steps.append(arrays)
    return steps


def main():
    cases = [{"optimizer": n, "settings": s, "steps": run(n, s)} for n, s in CASES]
    print(json.dumps({"shapes": SHAPES, "gradient_scales": GRADIENT_SCALES, "cases": cases}).replace(" ", ""))


main()
