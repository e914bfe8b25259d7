"""Writes src/vocab/sentencepiece/tokenizer_json.golden.json: what transformers saves for a SentencePiece model with 4
sentinels, with its charsmap as a checksum and without the middle of its vocabulary.

Made with transformers 5.23.0, sentencepiece 0.2.1, crc32c 2.7, Python 3.11:
    python tests/pipeline/checkpoint/other/tokenizer_json.py
"""

import json
import os
import shutil
import tempfile

import crc32c
from transformers import AutoTokenizer

HERE = os.path.dirname(os.path.abspath(__file__))
MODEL = os.path.join(HERE, "../../data/reference/sentencepiece.model")
GOLDEN = os.path.join(HERE, "../../../../src/vocab/sentencepiece/tokenizer_json.golden.json")

with tempfile.TemporaryDirectory() as folder:
    shutil.copy(MODEL, os.path.join(folder, "spiece.model"))
    for name, text in {
        "config.json": {"model_type": "t5"},
        "tokenizer_config.json": {"tokenizer_class": "T5Tokenizer", "extra_ids": 4},
    }.items():
        with open(os.path.join(folder, name), "w") as file:
            json.dump(text, file)
    AutoTokenizer.from_pretrained(folder).save_pretrained(os.path.join(folder, "saved"))
    with open(os.path.join(folder, "saved/tokenizer.json")) as file:
        saved = json.load(file)

saved["normalizer"]["precompiled_charsmap"] = crc32c.crc32c(saved["normalizer"]["precompiled_charsmap"].encode())
vocab = saved["model"]["vocab"]
saved["model"]["vocab"] = vocab[:6] + vocab[-6:] + [len(vocab)]
with open(GOLDEN, "w") as file:
    json.dump(saved, file, ensure_ascii=False, indent=1)
    file.write("\n")
