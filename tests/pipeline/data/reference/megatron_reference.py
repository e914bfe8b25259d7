"""Writes megatron/ and megatron.json: what the Megatron of t5-experiments makes of data, for src/data/megatron and megatron.rs.

Run as `python megatron_reference.py RUN` with NumPy, where the folder RUN holds what was saved of real runs of
yurakuratov/t5-experiments (branch feat/trainer_with_accelerate, 114dab52; Python 3.9, NumPy 1.23.1, nltk 3.9.2):
- inputs/bertdata: texts of made-up words, and the files that `preprocess_data.py --split-sentences`
  and `run_bert_pretraining.py` made of them; inputs/vocab/bert: the vocabulary.
- bert_data: mappings of the compiled `helpers.cpp`, the first 64 samples of `BertDataset` with `vocab_id_list` in ascending order,
  and the indices of `BlendableDataset` and `MixtureDataset`.
The draws are those of NumPy's RandomState, which does not change between versions.
"""

import json
import pathlib
import shutil
import sys

import numpy as np


def sample(data, setting, i):
    """One sample as the differences from padding: its tokens, the number of tokens of type 0, and the labels by position."""
    of = {name: data[f"{setting}.sorted.{name}"][i] for name in ("text", "types", "labels", "is_random", "padding_mask")}
    length = int(of["padding_mask"].sum())
    assert (of["text"][length:] == 0).all() and (np.diff(of["types"][:length]) >= 0).all()
    labels = {str(at): int(of["labels"][at]) for at in np.flatnonzero(of["labels"] != -100)}
    return {"text": of["text"][:length].tolist(), "first": int((of["types"][:length] == 0).sum()), "labels": labels,
            "is_random": int(of["is_random"])}


def draws(seed):
    """Draws of every kind that samples need, one after the other."""
    random = np.random.RandomState(seed)
    items = list(range(50))
    found = {"random": [random.random() for _ in range(5)], "randint": [int(random.randint(1, n)) for n in range(2, 60)]}
    random.shuffle(items)
    weights = 1.0 / np.arange(1, 4)
    weights /= weights.sum()
    return found | {"shuffle": items, "choice": random.choice(np.arange(1, 4), 60, p=weights).tolist(),
                    "after": random.random()}


def main(run):
    here = pathlib.Path(__file__).parent
    folder = here / "megatron"
    inputs = run / "inputs/bertdata"
    for file in inputs.glob("train*"):
        if file.is_file():
            shutil.copyfile(file, folder / file.name)
    for file in sorted((inputs / "train").iterdir()):
        shutil.copyfile(file, folder / file.name)
    shutil.copyfile(run / "inputs/vocab/bert/vocab.txt", folder / "vocab.txt")
    about = json.loads((run / "bert_data/bert_data.json").read_text())
    data = np.load(run / "bert_data/bert_data.npz")
    settings = [about["settings"][name] | {
        "mapping": data[f"{name}.mapping"].tolist(), "first_samples": [sample(data, name, i) for i in range(64)],
    } for name in about["settings"]]
    mappings = [about["cpp"][name] | {"mapping": data[name].tolist()} for name in about["cpp"]]
    blends = [blend | {
        f"{kind}_{part}": data[f"{kind}.{i}.{part}"].tolist() for kind in ("blend", "mixture") for part in ("dataset", "sample")
    } for i, blend in enumerate(about["blend"])]
    out = {"settings": settings, "documents": data["cpp.docs"].tolist(), "lengths": data["cpp.sizes"].tolist(),
           "mappings": mappings, "blends": blends, "draws": [draws(seed) | {"seed": seed} for seed in (0, 42, 2**32 - 1)]}
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(value, separators=(',', ':'))}" for key, value in out.items())
    (here / "megatron.json").write_text("{\n" + lines + "\n}\n")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
