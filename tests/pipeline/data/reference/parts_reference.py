"""Writes parts.json: parts of splits as `datasets.load_dataset` gives them, of JSON, CSV and text files.

Made with datasets 5.2.0, Python 3.11:
    python tests/pipeline/data/reference/parts_reference.py
"""

import json
import os
import tempfile

import datasets

HERE = os.path.dirname(os.path.abspath(__file__))
FILES = {
    "a.jsonl": "".join(f'{{"text": "a{i}"}}\n' for i in range(7)),
    "b.jsonl": "".join(f'{{"text": "b{i}"}}\n' for i in range(4)),
    "c.csv": "text,n\n" + "".join(f'"c\n{i}",{i}\n' for i in range(9)),
    "d.txt": "".join(f"d{i}\n" for i in range(5)),
}
KINDS = {"json": ["a.jsonl", "b.jsonl"], "csv": ["c.csv"], "text": ["d.txt"]}
SLICES = ["train[:90%]", "train[90%:]", "train[10%:55%]", "train[2:4]", "train[-3:]", "train[:-2]", "train[50%:]"]

if __name__ == "__main__":
  folder = tempfile.mkdtemp()
  for name, text in FILES.items():
    with open(os.path.join(folder, name), "w") as f:
      f.write(text)
  parts = []
  for kind, names in KINDS.items():
    for part in SLICES:
      found = datasets.load_dataset(kind, data_files={"train": [os.path.join(folder, n) for n in names]},
                                    split=part, cache_dir=os.path.join(folder, "cache"))
      parts.append({"files": json.dumps(names), "slice": part, "texts": found["text"][:]})
  lines = ",\n".join(json.dumps(p) for p in parts)
  with open(os.path.join(HERE, "parts.json"), "w") as f:
    f.write('{"files": ' + json.dumps(FILES) + ',\n"parts": [\n' + lines + "\n]}\n")
