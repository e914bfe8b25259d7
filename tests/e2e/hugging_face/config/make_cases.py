"""Writes the scores and greedy answers that transformers give for one set of weights under many `config.json`.

    python tests/e2e/hugging_face/config/make_cases.py

Made with transformers 5.24.0, and, for the cases whose `transformers_version` begins with 4, with transformers 4.57.6;
torch 2.11.0 (python 3.11). It writes the cases of the version that runs it, into `cases_5.json` or `cases_4.json`. Version 5
also writes the weights: `gated`, `plain` and `long` have a head of their own, `tied` has none. All models have one layer, with
which the weights of umT5 and mT5 have the names of T5's.
"""

import json
import pathlib
import shutil
import tempfile

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModelForSeq2SeqLM, ByT5Tokenizer, LongT5Config, LongT5ForConditionalGeneration, T5Config,
    T5ForConditionalGeneration)

HERE = pathlib.Path(__file__).parent
VERSION = transformers.__version__.split(".")[0]
TEXT, TARGET = "who: Ana sold four", "green lamps"
NUM_TOKENS = 8
VOCAB_SIZE = 259
PRINTABLE = range(3 + 32, 3 + 127)

BASE = {
    "model_type": "t5", "vocab_size": VOCAB_SIZE, "d_model": 8, "d_kv": 4, "d_ff": 12, "num_layers": 1,
    "num_decoder_layers": 1, "num_heads": 2, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False,
    "is_encoder_decoder": True, "decoder_start_token_id": 0, "eos_token_id": 1, "pad_token_id": 0}
LONG = {"model_type": "longt5", "encoder_attention_type": "local", "local_radius": 5}
OLD = {"transformers_version": "4.57.6"}
NEW = {"transformers_version": "5.24.0"}
ABSENT = "absent"

# Name, weights, and the entries of config.json that differ from the base.
CASES = [
    ("untied", "gated", {}),
    ("decoder_start_token_id", "gated", {"decoder_start_token_id": 5}),
    ("eos_token_id", "gated", {"eos_token_id": 2}),
    ("a list of one eos_token_id", "gated", {"eos_token_id": [2]}),
    ("layer_norm_epsilon", "gated", {"layer_norm_epsilon": 1e-3}),
    ("layer_norm_epsilon of umT5", "gated", {"model_type": "umt5", "layer_norm_epsilon": 1e-3}),
    ("layer_norm_epsilon of LongT5", "long", {**LONG, "layer_norm_epsilon": 1e-3}),
    *[(name, "plain", {"feed_forward_proj": name}) for name in ["relu", "gelu", "gelu_new", "silu", "swish", "tanh"]],
    *[(f"gated-{name}", "gated", {"feed_forward_proj": f"gated-{name}"})
      for name in ["relu", "silu", "gelu_new", "gelu_python", "linear", "sigmoid"]],
    ("dense_act_fn overrides", "gated", {"dense_act_fn": "gelu", "is_gated_act": True}),
    ("is_gated_act overrides", "plain", {"is_gated_act": False, "dense_act_fn": "relu"}),
    ("tie_word_embeddings absent", "gated", {"tie_word_embeddings": ABSENT}),
    ("tie_word_embeddings true", "gated", {"tie_word_embeddings": True}),
    ("scale_decoder_outputs true", "gated", {"scale_decoder_outputs": True}),
    ("scale_decoder_outputs false", "gated", {"tie_word_embeddings": True, "scale_decoder_outputs": False}),
    ("no head", "tied", {"tie_word_embeddings": True}),
    ("no head, not scaled", "tied", {}),
    ("umT5 untied", "gated", {"model_type": "umt5"}),
    ("umT5 tied", "gated", {"model_type": "umt5", "tie_word_embeddings": True}),
    ("umT5 as transformers 5 write it", "gated",
     {"model_type": "umt5", "tie_word_embeddings": True, "scale_decoder_outputs": False, **NEW}),
    ("LongT5 untied", "long", LONG),
    ("LongT5 tied", "long", {**LONG, "tie_word_embeddings": True}),
    ("mT5 of version 5", "gated", {"model_type": "mt5", "tie_word_embeddings": True, **NEW}),
    ("mT5 of version 5 without a head", "tied", {"model_type": "mt5", "tie_word_embeddings": True, **NEW}),
    ("mT5 of version 4", "gated", {"model_type": "mt5", **OLD}),
    ("mT5 of version 4 without the key", "gated", {"model_type": "mt5", "tie_word_embeddings": ABSENT, **OLD}),
    ("mT5 of version 4, tied", "tied", {"model_type": "mt5", "tie_word_embeddings": True, **OLD}),
    ("umT5 of version 4", "gated", {"model_type": "umt5", **OLD}),
    ("umT5 of version 4 without the key", "tied", {"model_type": "umt5", "tie_word_embeddings": ABSENT, **OLD}),
]


def config_of(changes):
    return {key: value for key, value in {**BASE, **changes}.items() if value != ABSENT}


def write_weights():
    families = {
        "gated": (T5Config, T5ForConditionalGeneration, {}),
        "plain": (T5Config, T5ForConditionalGeneration, {"feed_forward_proj": "relu"}),
        "long": (LongT5Config, LongT5ForConditionalGeneration, LONG),
    }
    for name, (make_config, make_model, changes) in families.items():
        torch.manual_seed(2)
        fields = config_of(changes)
        fields.pop("model_type")
        state = make_model(make_config(**fields)).state_dict()
        state = {key: torch.randn_like(value) * 0.7 for key, value in state.items() if "embed_tokens" not in key}
        # Large enough that the two forms of GELU differ.
        state = {key: value * (4 if "DenseReluDense" in key else 1) for key, value in state.items()}
        # Small enough that an epsilon of 0.001 shows.
        state["shared.weight"] *= 0.1
        # Bytes that are not printable are never the most probable; the end tokens sometimes are.
        is_written = torch.zeros(VOCAB_SIZE, 1)
        is_written[[1, *PRINTABLE]] = 1
        state["lm_head.weight"] *= is_written
        state["lm_head.weight"][2] = 1.2 * state["lm_head.weight"][3 + ord("*")]
        save_file(state, HERE / f"{name}.safetensors", metadata={"format": "pt"})
        if name == "gated":
            state.pop("lm_head.weight")
            state["shared.weight"] *= 10 * is_written
            save_file(state, HERE / "tied.safetensors", metadata={"format": "pt"})


def outputs(config, weights):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        shutil.copy(HERE / f"{weights}.safetensors", folder / "model.safetensors")
        (folder / "config.json").write_text(json.dumps(config))
        model = AutoModelForSeq2SeqLM.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = ByT5Tokenizer(extra_ids=0)
    ids = lambda text: tokenizer(text, return_tensors="pt").input_ids
    with torch.no_grad():
        labels = ids(TARGET)
        scores = model(input_ids=ids(TEXT), labels=labels).logits.log_softmax(-1)
        score = scores.gather(-1, labels[..., None]).sum().item()
        answer = model.generate(ids(TEXT), max_new_tokens=NUM_TOKENS)[0, 1:]
    return {"score": round(score, 5), "answer": tokenizer.decode(answer, skip_special_tokens=True)}


def main():
    if VERSION == "5":
        write_weights()
    rows = []
    for name, weights, changes in CASES:
        if (VERSION == "4") != (changes.get("transformers_version", "5").startswith("4")):
            continue
        config = config_of(changes)
        row = {"name": name, "weights": weights, "config": config, **outputs(config, weights)}
        print(name, row["score"], repr(row["answer"]))
        rows.append(row)
    lines = ",\n".join(json.dumps(row) for row in rows)
    (HERE / f"cases_{VERSION}.json").write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
