"""Writes the data of a test from a run of real t5-experiments: train.jsonl, validation.jsonl, steps.json and two files of
weights.

Run as `python make_run.py RUN` (numpy). RUN is a folder with the record of one run of `run_bert_pretraining.py`, made as
that of ../make_run.py, with these flags: --batch_size 4 --gradient_accumulation_steps 2 --iters 12 --input_seq_len 48
--optimizer AdamW --lr 3e-03 --weight_decay 0.01 --lr_scheduler linear --num_warmup_steps 3 --clip_grad_norm 0.5
--log_interval 3 --valid_interval 4, and a model_cfg of hidden_size 16, intermediate_size 24, 2 heads, one layer with norms
before its blocks, 128 tokens, and no dropout.
"""

import json
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


def main(run):
    batches = np.load(f"{run}/batches.npz")
    with open(f"{run}/events.json") as file:
        events = json.load(file)["events"]
    with open(f"{run}/tensorboard.json") as file:
        logged = json.load(file)
    steps = [event for event in events if event["kind"] == "train"]
    num_held_out = len({key.split(".")[2] for key in batches if key.startswith("valid.0.")})
    for name, count, prefix in [("train", len(steps), "train"), ("validation", num_held_out, "valid.0")]:
        with open(f"{name}.jsonl", "w") as file:
            file.writelines(examples(batches, count, prefix))
    rates = [0.0] + [step["lr_after_step"] for step in steps]
    columns = {
        **{name: [step["metrics"][name] for step in steps] for name in ("loss", "loss_mlm", "loss_nsp")},
        "weight_gradient_norm": [step["grad_norm_before_clipping"] for step in steps],
        "learning_rate": rates[: len(steps)],
        # Accuracies of masked tokens and means over unequal batches are exact here, and not there.
        "tensorboard": {
            tag: dict(values)
            for tag, values in logged.items()
            if not tag.startswith(("time", "accuracy_mlm", "patience")) and ("valid" not in tag or "accuracy_nsp" in tag)
        },
    }
    with open("steps.json", "w") as file:
        json.dump(columns, file, indent=1)
        file.write("\n")
    for name in ("initial.safetensors", "final.safetensors"):
        shutil.copyfile(f"{run}/{name}", name)


if __name__ == "__main__":
    main(sys.argv[1])
