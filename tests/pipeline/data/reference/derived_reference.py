"""Writes derived.json: what SeqIO's helpers make of tasks and mixtures.

Made with seqio 0.0.20, Python 3.11:
    python tests/pipeline/data/reference/derived_reference.py
"""

import json
import os
import tempfile

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import seqio
from seqio import helpers

HERE = os.path.dirname(os.path.abspath(__file__))
# Lines by file; the same are written by `derived.rs`.
FILES = {"a-0": 7, "a-1": 20, "b-0": 5, "dev-0": 3}


def write_files(folder):
  for name, count in FILES.items():
    with open(os.path.join(folder, name), "w") as f:
      f.write("".join(f"{name} {i}\n" for i in range(count)))


def add_task(name, splits):
  seqio.TaskRegistry.add(
      name,
      source=seqio.TextLineDataSource(splits, num_input_examples={"train": 27 if name == "a" else 5}),
      preprocessors=[
          rekey,
          seqio.preprocessors.tokenize,
          seqio.preprocessors.append_eos_after_trim,
      ],
      output_features={"targets": seqio.Feature(seqio.ByteVocabulary(extra_ids=0))},
      metric_fns=[])


def rekey(ds):
  return ds.map(lambda text: {"targets": text})


def texts(name, split):
  ds = seqio.get_mixture_or_task(name).source.get_dataset(split, shuffle=False)
  return [line.decode() for line in ds.as_numpy_iterator()]


def steps(name):
  named = lambda p: getattr(p, "__name__", type(p).__name__)
  return [named(p) for p in seqio.TaskRegistry.get(name).preprocessors]


def main():
  folder = tempfile.mkdtemp()
  write_files(folder)
  at = lambda pattern: os.path.join(folder, pattern)
  add_task("a", {"train": at("a-*"), "dev": at("dev-*")})
  add_task("b", {"train": at("b-*")})
  seqio.MixtureRegistry.add("inner", [("b", 3.0)])
  seqio.MixtureRegistry.add("outer", [("a", 2.0), ("inner", 1.0)])
  vocabulary = seqio.ByteVocabulary(extra_ids=5)
  helpers.mixture_or_task_with_new_vocab("a", "new", new_vocab=vocabulary, add_cache_placeholder=True)
  helpers.mixture_or_task_with_new_vocab("outer", "mix", new_vocab=vocabulary)
  helpers.mixture_or_task_with_truncated_data("outer", "few", split_sizes={"train": 10})
  helpers.mixture_with_missing_task_splits_removed("outer", "dev", "devs")
  names = lambda m: sorted(t.name for t in seqio.MixtureRegistry.get(m).tasks)
  rates = lambda m: {t.name: seqio.MixtureRegistry.get(m).get_rate(t) for t in seqio.MixtureRegistry.get(m).tasks}
  vocab_size = lambda t: seqio.TaskRegistry.get(t).output_features["targets"].vocabulary.vocab_size
  found = {
      "names": {m: names(m) for m in ("mix", "few", "devs")},
      "rates": {m: rates(m) for m in ("mix", "few", "devs")},
      "vocab_sizes": {t: vocab_size(t) for t in ("a", "new", "mix.a", "mix.inner.b")},
      "steps": {t: steps(t) for t in ("new", "mix.a")},
      "texts": {t: {s: texts(t, s) for s in seqio.TaskRegistry.get(t).splits}
                for t in ("few.a", "few.inner.b")},
      "num_input_examples": {
          t: seqio.TaskRegistry.get(t).num_input_examples("train") for t in ("few.a", "few.inner.b")},
  }
  with open(os.path.join(HERE, "derived.json"), "w") as f:
    json.dump(found, f, indent=1, sort_keys=True)
    f.write("\n")


if __name__ == "__main__":
  main()
