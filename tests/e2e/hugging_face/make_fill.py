"""Writes fill.json: what the pipeline `fill-mask` of transformers finds for masks in texts.

Made with transformers 5.24.0 and torch 2.11.0 (python 3.11):
    python tests/e2e/hugging_face/make_fill.py
The model is a BertForPreTraining with random weights, `bert_absolute` of ../../numerics; the pieces are those of ../../pipeline, and
as many unused ones as its embedding has further rows.
"""

import json
import pathlib
import shutil
import tempfile

from transformers import BertForMaskedLM, BertTokenizer, pipeline

HERE = pathlib.Path(__file__).parent
NUMERICS = HERE.parent.parent / "numerics"
PIECES = HERE.parent.parent / "pipeline/data/reference/megatron/vocab.txt"
TOPK = 3
# Texts in capitals, with accents, unknown words, several masks, and a mask that touches other pieces.
TEXTS = ["ba KO [MASK] ri.", "[MASK] Shi, gan-[MASK][MASK] 12 loshiba!", "Tén mu vi sol [MASK]dar xyz [mask] [SEP] lo pe"]


def folder_of_model(folder):
    config = json.loads((NUMERICS / "bert.json").read_text())["bert_absolute"]["config"]
    (folder / "config.json").write_text(json.dumps({"model_type": "bert", **config}))
    shutil.copyfile(NUMERICS / "data/t5_experiments/bert_absolute.safetensors", folder / "model.safetensors")
    pieces = PIECES.read_text().split()
    pieces += [f"[unused{number}]" for number in range(config["vocab_size"] - len(pieces))]
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n")


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        folder_of_model(folder)
        found = {}
        for lower_case in (True, False):
            tokenizer = BertTokenizer.from_pretrained(folder, do_lower_case=lower_case)
            fill = pipeline("fill-mask", BertForMaskedLM.from_pretrained(folder).eval(), tokenizer=tokenizer, top_k=TOPK)
            rows = found["lower_case" if lower_case else "cased"] = []
            for text in TEXTS:
                masks = fill(text)
                masks = masks if isinstance(masks[0], list) else [masks]
                pairs = [[[tokenizer.convert_ids_to_tokens(it["token"]), it["score"]] for it in mask] for mask in masks]
                rows.append({"inputs": text, "masks": pairs})
    # One line for each text.
    (HERE / "fill.json").write_text(json.dumps(found).replace('{"inputs"', '\n{"inputs"') + "\n")


if __name__ == "__main__":
    main()
