"""Writes `more_tokens`: a tokenizer and two small T5 with random weights as transformers save them, tied and untied, and what
transformers compute after `add_tokens` and `resize_token_embeddings`: ids of texts, and the log-likelihoods of targets.

Made with transformers 5.24.0 and torch 2.11.0 (python 3.11):
    python tests/e2e/hugging_face/make_more_tokens.py
New rows are drawn around the mean of the others with a variance of 1e-9 of theirs.
"""

import json
import pathlib
import shutil

import torch
from transformers import T5Config, T5ForConditionalGeneration, T5Tokenizer

FOLDER = pathlib.Path(__file__).parent / "more_tokens"
SENTINELS = 4
PIECES = ["▁", "▁the", "▁cat", "▁sat", "s", "a", "t", "c", "e", "h", "▁on", "m", "n", ".", "<", ">"]
NEW = ["<name>", "matcha"]
TEXTS = ["the cat sat on <name>.", "matcha", "<name>matcha <name> the", "themathe <extra_id_0> cat <extra_id_3>"]
TARGETS = ["<extra_id_0> matcha <extra_id_1>", "<name>", "the cat", "sat<name>matchas"]


def tokenizer():
    texts = ["<pad>", "</s>", "<unk>", *PIECES, *(f"<extra_id_{i}>" for i in reversed(range(SENTINELS)))]
    scores = [0.0, 0.0, 0.0, *(-2.0 - 0.1 * at for at in range(len(PIECES))), *(0.0 for _ in range(SENTINELS))]
    return T5Tokenizer(vocab=list(zip(texts, scores)), extra_ids=SENTINELS)


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    tokenizer().save_pretrained(FOLDER)
    expected = {"new": NEW, "texts": TEXTS, "targets": TARGETS}
    for name, tied in (("tied", True), ("untied", False)):
        torch.manual_seed(0)
        own = T5Tokenizer.from_pretrained(FOLDER)
        config = T5Config(
            vocab_size=len(own), d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2, pad_token_id=0, eos_token_id=1,
            decoder_start_token_id=0, dropout_rate=0.0, feed_forward_proj="relu" if tied else "gated-gelu",
            tie_word_embeddings=tied)
        model = T5ForConditionalGeneration(config).eval()
        for parameter in model.parameters():
            parameter.data.normal_(0, 0.4)
        if not tied:
            model.lm_head.weight = torch.nn.Parameter(torch.randn(len(own), 8))
        model.save_pretrained(FOLDER / name)
        # As transformers read it again.
        model = T5ForConditionalGeneration.from_pretrained(FOLDER / name).eval()
        # Version 5 calls every T5 tied, and would tie the resized head to the embedding.
        model.config.tie_word_embeddings = tied
        own.add_tokens(NEW)
        model.resize_token_embeddings(len(own), mean_resizing=True)
        assert (model.lm_head.weight is model.shared.weight) == tied
        ids = lambda text: own(text, return_tensors="pt").input_ids
        scores = []
        with torch.no_grad():
            for text, target in zip(TEXTS, TARGETS):
                labels = ids(target)
                logits = model(input_ids=ids(text), labels=labels).logits.log_softmax(-1)
                scores.append(round(logits.gather(-1, labels[..., None]).sum().item(), 5))
        expected[name] = {"rows": len(own), "scores": scores}
        expected["ids"] = [own(text, add_special_tokens=False).input_ids for text in TEXTS]
        (FOLDER / name / "generation_config.json").unlink()
    (FOLDER / "expected.json").write_text(json.dumps(expected, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
