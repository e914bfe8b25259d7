#!/usr/bin/env python3
"""Says what a quickstart run left behind, and what to try next."""

import json
import sys
from pathlib import Path


def main():
    out = Path(sys.argv[1])
    evaluation = out / "finetune" / "inference_eval"
    metrics = read_lines(evaluation / "quickstart_dates-metrics.jsonl")[-1]
    step = metrics.pop("step")
    predictions = read_lines(evaluation / f"quickstart_dates-{step:06}.jsonl")
    print(f"\nHeld-out dates, decoded at step {step}:")
    for line in predictions[:5]:
        mark = "=" if line["prediction"] == line["target"] else "!"
        print(f"  {text(line):24} -> {line['prediction']}  {mark} {line['target']}")
    for name, value in metrics.items():
        print(f"  {name} {value:.1f} over {len(predictions)} examples")
    print("\nCheckpoints, in T5X's layout, and TensorBoard logs:")
    for run in ["pretrain", "finetune"]:
        for checkpoint in sorted((out / run).glob("checkpoint_*")):
            print(f"  {checkpoint}")
        print(f"  tensorboard --logdir {out / run}")
    print(NEXT.format(out=out))


def read_lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def text(line):
    inputs = line["input"]
    return inputs.get("inputs_pretokenized", inputs) if isinstance(inputs, dict) else inputs


NEXT = """
Next:
  target/release/gimlet train --help       all flags
  less runs/quickstart/finetune.gin        a run is a gin file; any binding can be given as a flag:
  target/release/gimlet train --gin_file=runs/quickstart/pretrain.gin \\
    --gin.MODEL_DIR="'{out}/wider'" --gin.network.T5Config.emb_dim=256
  less tasks/quickstart.gin                a task is a block: copy it, and name your own files
  less CONTRIBUTING.md                     where each thing goes"""

if __name__ == "__main__":
    main()
