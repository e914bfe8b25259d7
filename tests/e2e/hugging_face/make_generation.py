"""Writes generation.json: answers of transformers to the folders beside it with other parameters of generation.

Made with transformers 5.24.0 and torch 2.11.0 (python 3.11):
    python tests/e2e/hugging_face/make_generation.py
"""

import json
import pathlib
import shutil
import tempfile

from transformers import AutoModelForSeq2SeqLM, ByT5Tokenizer

HERE = pathlib.Path(__file__).parent
TEXTS = ["a", "who: Ana sold four green lamps in Cluj.", "how many", "the Software"]
IDS = {"decoder_start_token_id": 0, "eos_token_id": 1, "pad_token_id": 0}
# The folder, the fields of its generation_config.json, those of its config.json, and flags of `generate`.
CASES = [
    ("t5", IDS | {
        "num_beams": 4, "num_return_sequences": 2, "no_repeat_ngram_size": 2, "length_penalty": 1.5,
        "early_stopping": True, "max_new_tokens": 10}, {}, {}),
    ("t5", IDS | {
        "repetition_penalty": 1.3, "encoder_no_repeat_ngram_size": 2, "min_length": 9, "max_length": 13,
        "suppress_tokens": [112, 39], "forced_bos_token_id": 70}, {}, {}),
    ("t5", IDS | {"no_repeat_ngram_size": 2, "max_length": 13}, {}, {"num_beams": 3}),
    ("t5", None, {
        "num_beams": 2, "length_penalty": 0.0, "max_length": 9, "task_specific_params": {"x": {"num_beams": 7}}}, {}),
    # The file beside it wins.
    ("t5", IDS | {"max_length": 9}, {"num_beams": 4}, {}),
    # Several tokens end an answer.
    ("t5", None, {"eos_token_id": [1, 112], "max_length": 9}, {}),
]


def answers(name, generation, config, flags):
    tokenizer = ByT5Tokenizer()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        shutil.copytree(HERE / name, folder, dirs_exist_ok=True)
        fields = json.loads((folder / "config.json").read_text()) | config
        (folder / "config.json").write_text(json.dumps(fields))
        (folder / "generation_config.json").unlink()
        if generation is not None:
            (folder / "generation_config.json").write_text(json.dumps(generation))
        model = AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
        for text in TEXTS:
            ids = tokenizer(text, return_tensors="pt").input_ids
            found = model.generate(ids, **flags)
            yield [tokenizer.decode(row, skip_special_tokens=True) for row in found]


def main():
    cases = []
    for name, generation, config, flags in CASES:
        found = list(answers(name, generation, config, flags))
        cases.append({
            "folder": name, "generation_config": generation, "config": config, "flags": flags, "texts": TEXTS,
            "answers": found})
    rows = ",\n".join(json.dumps(case) for case in cases)
    (HERE / "generation.json").write_text(f"[\n{rows}\n]\n")


if __name__ == "__main__":
    main()
