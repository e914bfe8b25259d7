"""Writes the data of tests from two runs of real t5-experiments: train.jsonl, validation.jsonl, steps.json, two files of
weights, and in the folder `accelerate` what differs in the second run.

Run as `python make_run.py RUN ACCELERATED` (numpy). RUN is a folder with the record of one run of `run_bert_pretraining.py`, made as
that of ../make_run.py, with these flags: --batch_size 4 --gradient_accumulation_steps 2 --iters 12 --input_seq_len 48
--optimizer AdamW --lr 3e-03 --weight_decay 0.01 --lr_scheduler linear --num_warmup_steps 3 --clip_grad_norm 0.5
--log_interval 3 --valid_interval 4, and a model_cfg of hidden_size 16, intermediate_size 24, 2 heads, one layer with norms
before its blocks, 128 tokens, and no dropout. ACCELERATED is that of `run_bert_pretraining_accel.py` with the same initial
weights, data and flags, but for --iters 6 --log_interval 2 --valid_interval 3 --save_interval 6 --save_best.
"""

import json
import os
import shutil
import sys

import numpy as np


def examples(batches, count, name):
    """The rows of some batches as features of the model, without padding."""
    for batch in range(count):
        keys = ("text", "types", "labels", "is_random", "padding_mask")
        text, types, labels, order, mask = (batches[f"{name}.{batch}.{key}"] for key in keys)
        for row in range(len(text)):
            kept = mask[row] > 0
            example = {
                "encoder_input_tokens": text[row][kept].tolist(),
                "encoder_token_types": types[row][kept].tolist(),
                "encoder_target_tokens": np.maximum(labels[row], 0)[kept].tolist(),
                "encoder_loss_weights": (labels[row] >= 0)[kept].astype(int).tolist(),
                "next_sentence_label": [int(order[row])],
            }
            yield json.dumps(example, separators=(",", ":")) + "\n"


def columns(steps, norm):
    """Losses, norms and rates of each step."""
    rates = [0.0] + [step["lr_after_step"] for step in steps]
    return {
        **{name: [step["metrics"][name] for step in steps] for name in ("loss", "loss_mlm", "loss_nsp")},
        "weight_gradient_norm": [step[norm] for step in steps],
        "learning_rate": rates[: len(steps)],
    }


def write(name, value):
    with open(name, "w") as file:
        json.dump(value, file, indent=1)
        file.write("\n")


def read(run, name):
    with open(f"{run}/{name}") as file:
        return json.load(file)


def accelerated(run):
    """The steps and validations of a run with Accelerate, and its last model, which is the best one."""
    events = read(run, "events.json")["events"]
    steps, validations = ([event for event in events if event["kind"] == kind] for kind in ("train", "validation"))
    # The last validation is that of the best model, which metrics.json has.
    of_steps = {event["n_iter"]: event["metrics"] for event in validations[:-1]}
    os.makedirs("accelerate/model_best", exist_ok=True)
    write("accelerate/steps.json", {**columns(steps, "grad_norm_logged"), "validations": of_steps})
    for name in ("metrics.json", "model_best/pytorch_model.bin", "model_best/trainer.pckl"):
        shutil.copyfile(f"{run}/{name}", f"accelerate/{name}")


def main(run):
    batches = np.load(f"{run}/batches.npz")
    events = read(run, "events.json")["events"]
    logged = read(run, "tensorboard.json")
    steps = [event for event in events if event["kind"] == "train"]
    num_held_out = len({key.split(".")[2] for key in batches if key.startswith("valid.0.")})
    for name, count, prefix in [("train", len(steps), "train"), ("validation", num_held_out, "valid.0")]:
        with open(f"{name}.jsonl", "w") as file:
            file.writelines(examples(batches, count, prefix))
    described = {
        **columns(steps, "grad_norm_before_clipping"),
        # Accuracies of masked tokens and means over unequal batches are exact here, and not there.
        "tensorboard": {
            tag: dict(values)
            for tag, values in logged.items()
            if not tag.startswith(("time", "accuracy_mlm", "patience")) and ("valid" not in tag or "accuracy_nsp" in tag)
        },
    }
    write("steps.json", described)
    for name in ("initial.safetensors", "final.safetensors"):
        shutil.copyfile(f"{run}/{name}", name)


if __name__ == "__main__":
    main(sys.argv[1])
    accelerated(sys.argv[2])
