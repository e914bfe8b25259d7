"""Prints learning rates of transformers for the test of src/schedule/get_scheduler.rs.

Made with transformers 5.24.0 and torch 2.15.0 (python 3.11); transformers 4.17.0 has the same formulas.
    python tests/numerics/get_scheduler.py
"""

import warnings

import torch
from transformers import get_scheduler

STEPS, WARMUP, TOTAL, RATE = [0, 1, 4, 5, 6, 20, 39, 40, 50], 5, 40, 0.01
NAMES = ["constant", "constant_with_warmup", "linear", "cosine", "cosine_with_restarts", "polynomial"]

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for name in NAMES:
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=RATE)
        scheduler = get_scheduler(name, optimizer, WARMUP, TOTAL)
        rates = []
        for step in range(STEPS[-1] + 1):
            if step in STEPS:
                rates.append(optimizer.param_groups[0]["lr"])
            scheduler.step()
        print(name, rates)
