"""Writes adamw_scale.json: steps of nanoT5's AdamWScale, for torch_rules.rs.

Run as `python adamw_scale.py NANOT5/nanoT5/utils/copied_utils.py > adamw_scale.json` (github.com/PiotrNawrot/nanoT5 at 1375b38, torch 2.11.0,
numpy 2.4.6, CPU, float32). Only the optimizer's class is executed, since its file imports more than torch. Parameters and gradients are those of
torch_rules.py.
"""

import ast
import json
import math
import sys
from typing import Iterable, Tuple

import numpy as np
import torch
from samples import noise, sample
from torch import nn

SHAPES = {"kernel": [2, 3], "scale": [4], "scalar": [], "still": [2]}
CASES = [
    ["AdamWScale", {}],
    ["AdamWScale", {"lr": 0.02, "betas": [0.5, 0.9], "eps": 1e-3, "weight_decay": 0.1}],
]
GRADIENT_SCALES = [1.0, 10.0, 0.1, 3.0, 0.0, 2.0]


def optimizer_class(path, name):
    found = [node for node in ast.parse(open(path).read()).body if getattr(node, "name", None) == name]
    names = {"Iterable": Iterable, "Optimizer": torch.optim.Optimizer, "Tuple": Tuple, "math": math, "nn": nn, "torch": torch}
    exec(compile(ast.Module(found, []), path, "exec"), names)
    return names[name]


def run(name, settings):
    weights = {n: torch.tensor(noise(s, i) * (n != "still")) for i, (n, s) in enumerate(SHAPES.items())}
    optimizer = optimizer_class(sys.argv[1], name)(weights.values(), **settings)
    steps = []
    for step, scale in enumerate(GRADIENT_SCALES):
        for i, (n, s) in enumerate(SHAPES.items()):
            weights[n].grad = torch.tensor(noise(s, 100 * (step + 1) + i) * np.float32(scale))
        optimizer.step()
        arrays = {}
        for n, weight in weights.items():
            arrays[n] = sample(weight.numpy(), 7)
            state = optimizer.state[weight]
            arrays |= {f"{slot}/{n}": sample(state[slot].numpy(), 7) for slot in ("exp_avg", "exp_avg_sq")}
        steps.append(arrays)
    return steps


def main():
    cases = [{"optimizer": n, "settings": s, "steps": run(n, s)} for n, s in CASES]
    print(json.dumps({"shapes": SHAPES, "gradient_scales": GRADIENT_SCALES, "cases": cases}).replace(" ", ""))


main()
