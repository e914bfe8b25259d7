"""Writes small models with random weights as transformers save them, and transformers' own answers and scores.

Made with transformers 5.23.0, `umt5` with 5.24.0, `longt5` with 4.57.6, and torch 2.11.0 (python 3.11):
    python tests/e2e/hugging_face/make_folders.py [NAME ...]
`t5` is T5 1.0, whose head is its embedding; `flan_t5` has the network of T5 1.1, Flan-T5 and mT5, with a head of its
own; `umt5` has a bias of relative position in every layer; `longt5` has local attention and transient global tokens. All read and write bytes, so that they need no vocabulary;
bytes that are not printable are never the most probable, since their rows are 0.
"""

import json
import pathlib
import sys

import torch
from transformers import (
    ByT5Tokenizer, LongT5Config, LongT5ForConditionalGeneration, T5Config, T5ForConditionalGeneration, UMT5Config,
    UMT5ForConditionalGeneration)

HERE = pathlib.Path(__file__).parent
VOCAB_SIZE = 384
PRINTABLE = range(3 + 32, 3 + 127)
NUM_TOKENS = 12
TEXTS = ["a", "who: Ana sold four green lamps in Cluj.", "how many", "the Software"]
TARGETS = ["bc", "Ana", "four", "without restriction"]


T5 = (T5Config, T5ForConditionalGeneration)
UMT5 = (UMT5Config, UMT5ForConditionalGeneration)
LONGT5 = (LongT5Config, LongT5ForConditionalGeneration)
ATTENTION = dict(encoder_attention_type="transient-global", local_radius=5, global_block_size=4)
MODELS = [
    ("t5", T5, 1, "relu", True),
    ("flan_t5", T5, 1, "gated-gelu", False),
    ("umt5", UMT5, 2, "gated-gelu", False),
    ("longt5", LONGT5, 1, "gated-gelu", False),
]


def model(family, num_decoder_layers, feed_forward_proj, tied):
    make_config, make_model = family
    config = make_config(
        vocab_size=VOCAB_SIZE, d_model=16, d_kv=8, d_ff=32, num_layers=2, num_decoder_layers=num_decoder_layers,
        num_heads=2, feed_forward_proj=feed_forward_proj, tie_word_embeddings=tied, pad_token_id=0, eos_token_id=1,
        decoder_start_token_id=0, **(ATTENTION if family is LONGT5 else {}))
    model = make_model(config).eval()
    for parameter in model.parameters():
        parameter.data.normal_(0, 0.4)
    if not tied:
        model.lm_head.weight = torch.nn.Parameter(torch.randn(VOCAB_SIZE, 16))
    is_written = torch.zeros(VOCAB_SIZE, 1)
    is_written[[1, *PRINTABLE]] = 1
    model.lm_head.weight.data *= is_written
    model.generation_config.max_new_tokens = NUM_TOKENS
    return model


def outputs(model, tokenizer):
    ids = lambda text: tokenizer(text, return_tensors="pt").input_ids
    with torch.no_grad():
        for text, target in zip(TEXTS, TARGETS):
            labels = ids(target)
            scores = model(input_ids=ids(text), labels=labels).logits.log_softmax(-1)
            score = scores.gather(-1, labels[..., None]).sum().item()
            answer = tokenizer.decode(model.generate(ids(text))[0], skip_special_tokens=True)
            yield {"inputs": text, "targets": target, "score": round(score, 4), "answer": answer}


def main():
    tokenizer = ByT5Tokenizer()
    for name, family, *traits in MODELS:
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        torch.manual_seed(0)
        folder = HERE / name
        model(family, *traits).save_pretrained(folder)
        # The fields that tell the tokenizer, without the list of its 259 tokens.
        fields = {"tokenizer_class": "ByT5Tokenizer", "extra_ids": 125}
        (folder / "tokenizer_config.json").write_text(json.dumps(fields) + "\n")
        # As transformers read them again.
        again = family[1].from_pretrained(folder).eval()
        found = outputs(again, tokenizer)
        (folder / "outputs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in found))


if __name__ == "__main__":
    main()
