"""Writes transformers' logits for what `gimlet checkpoint convert` writes of models with other activations.

The model is that of the folder hf_untied_gated_gelu beside this script (see make_hf_t5.py); with one activation, `wi_0`
is its only input projection. For each tuple of T5X's activations Gimlet converts it with
`--gin.network.T5Config.mlp_activations`, transformers reads the result, and hf_activations.json gets the
logits of the last position, which the test compares with Gimlet's.

Made with torch 2.11.0 and transformers 5.24.0 on a CPU:
    python make_hf_activations.py GIMLET   (the program that `cargo build --no-default-features` makes)
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import load_file, save_file
from transformers import T5ForConditionalGeneration

HERE = pathlib.Path(__file__).parent
MODEL = HERE / "hf_untied_gated_gelu"
CASES = [["relu"], ["gelu"], ["linear"], ["silu"],
         ["gelu", "linear"], ["silu", "linear"], ["swish", "linear"], ["relu", "linear"], ["sigmoid", "linear"],
         ["tanh", "linear"], ["linear", "gelu"]]
INPUTS = [5, 17, 30, 2, 39, 8, 1]
TARGETS = [12, 4, 33, 9]


def with_one_projection(folder):
    """The same model without its second input projections."""
    folder.mkdir()
    tensors = load_file(MODEL / "model.safetensors")
    kept = {name.replace(".wi_0.", ".wi."): tensor for name, tensor in tensors.items() if ".wi_1." not in name}
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((MODEL / "config.json").read_text()) | {"feed_forward_proj": "relu"}
    for key in ["dense_act_fn", "is_gated_act"]:
        config.pop(key, None)
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def logits(folder):
    model, info = T5ForConditionalGeneration.from_pretrained(folder, output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"], info
    with torch.no_grad():
        found = model.eval()(input_ids=torch.tensor([INPUTS]), decoder_input_ids=torch.tensor([[0, *TARGETS[:-1]]]))
    return [round(logit, 6) for logit in found.logits[0, -1].tolist()]


def main(gimlet):
    cases = []
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        single = with_one_projection(scratch / "single")
        for number, activations in enumerate(CASES):
            source = single if len(activations) == 1 else MODEL
            target = scratch / str(number)
            binding = f"--gin.network.T5Config.mlp_activations={tuple(activations)!r}"
            subprocess.run([gimlet, "checkpoint", "convert", source, target, "--to=hugging_face", binding], check=True)
            proj = json.loads((target / "config.json").read_text())["feed_forward_proj"]
            cases.append(dict(mlp_activations=activations, feed_forward_proj=proj, logits=logits(target)))
    rows = ",\n".join(json.dumps(case) for case in cases)
    text = f'{{"inputs": {INPUTS}, "targets": {TARGETS}, "cases": [\n{rows}\n]}}\n'
    (HERE / "hf_activations.json").write_text(text)


if __name__ == "__main__":
    main(sys.argv[1])
