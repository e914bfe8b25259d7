"""Prints learning rates of torch's ReduceLROnPlateau for the test of src/train/plateau.rs.

Made with torch 2.15.0 (python 3.11); torch 1.10.2 has the same rule.
    python tests/numerics/plateau.py
"""

import torch

METRICS = [3.0, 2.0, 2.0, 1.9999, 2.5, 2.0, 1.0, 0.9, 0.95, 0.95, 0.95, 0.95, 0.95, 0.95]
CASES = [
    {"patience": 1},
    {"patience": 0, "factor": 0.5, "cooldown": 2, "min_lr": 0.003},
    {"patience": 1, "mode": "max", "threshold": 0.2, "threshold_mode": "abs"},
]

if __name__ == "__main__":
    for case in CASES:
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.01)
        scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, **case)
        rates = []
        for metric in METRICS:
            scheduler.step(metric)
            rates.append(optimizer.param_groups[0]["lr"])
        print(case, rates)
