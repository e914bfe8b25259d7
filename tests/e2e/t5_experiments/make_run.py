"""Writes the data of a test from a run of real t5-experiments: train.jsonl, validation.jsonl, steps.json and two files of
weights; model_6.pth is a copy of the run's file.

Run as `python make_run.py RUN` (numpy). RUN is a folder with the record of one run of `run_t5_pretraining.py` (branch
feat/trainer_with_accelerate at 114dab52, torch 1.10.2 and transformers 4.17.0 on a CPU, one thread), made by wrapping
the Trainer's `batch_transform_fn` and optimizer:

- `batches.npz`: the batches of each training step, `train.STEP.KEY`, and of the first validation, `valid.0.BATCH.KEY`;
- `events.json`: loss, gradient norm and learning rate of each step, and the metrics of each validation;
- `tensorboard.json`: the values that it logged with `--log_interval 3`, by tag;
- `initial.safetensors` and `final.safetensors`: the model's parameters before the first step and after the last.

The flags of the run: --batch_size 4 --gradient_accumulation_steps 2 --iters 12 --input_seq_len 48 --target_seq_len 24
--optimizer Adafactor --lr 1e-02 --scale_parameter --lr_scheduler constant_with_warmup --num_warmup_steps 5, and a
model_cfg of d_model 16, d_kv 8, d_ff 24, 2 heads, a layer on each side, 384 tokens, relu and no dropout.
"""

import json
import shutil
import sys

import numpy as np


def examples(batches, count, name):
    """The rows of some batches without padding, which is 0 in inputs and -100 in targets."""
    for batch in range(count):
        inputs, targets = (batches[f"{name}.{batch}.{key}"] for key in ("inputs", "targets"))
        for row in range(len(inputs)):
            kept = [ids[row][ids[row] > 0].tolist() for ids in (inputs, targets)]
            yield json.dumps(dict(zip(("inputs", "targets"), kept)), separators=(",", ":")) + "\n"


def main(run):
    batches = np.load(f"{run}/batches.npz")
    with open(f"{run}/events.json") as file:
        events = json.load(file)["events"]
    with open(f"{run}/tensorboard.json") as file:
        logged = json.load(file)
    steps = [event for event in events if event["kind"] == "train"]
    first_validation = next(event for event in events if event["kind"] == "validation")
    num_held_out = len({key.split(".")[2] for key in batches if key.startswith("valid.0.")})
    for name, count, prefix in [("train", len(steps), "train"), ("validation", num_held_out, "valid.0")]:
        with open(f"{name}.jsonl", "w") as file:
            file.writelines(examples(batches, count, prefix))
    # The learning rate of a step is that after the step before it; the first one is 0, the warm-up's beginning.
    rates = [0.0] + [step["lr_after_step"] for step in steps]
    columns = {
        "loss": [step["metrics"]["loss"] for step in steps],
        "weight_gradient_norm": [step["grad_norm_before_clipping"] for step in steps],
        "learning_rate": rates[: len(steps)],
        "validation_loss": [first_validation["metrics"]["loss"]],
        # Validations after the first one are masked by chance.
        "tensorboard": {
            tag: dict(values if "valid" not in tag else values[:1])
            for tag, values in logged.items()
            if not tag.startswith(("time", "scaled_lr"))
        },
    }
    with open("steps.json", "w") as file:
        json.dump(columns, file, indent=1)
        file.write("\n")
    for name in ("initial.safetensors", "final.safetensors", "model_6.pth"):
        shutil.copyfile(f"{run}/{name}", name)


if __name__ == "__main__":
    main(sys.argv[1])
