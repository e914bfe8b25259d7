"""Writes t5_tasks.json, the tasks and mixtures that the t5 library registers.

Made with t5 0.9.4, seqio 0.0.20, Python 3.11:
    python tests/pipeline/data/reference/t5_tasks.py
"""

import functools
import json
import os
import sys

from stand_ins import stand_in_for_t5

HERE = os.path.dirname(os.path.abspath(__file__))
stand_in_for_t5()
import t5
t5.data = sys.modules["t5.data"]
from t5.data import utils
for name in ("get_default_vocabulary", "rate_num_examples", "rate_unsupervised"):
  setattr(t5.data, name, getattr(utils, name))
import seqio
import t5.data.mixtures


def name_of(function):
  """The function, or what made it: `mean_group_metric.<locals>.my_metric` is `mean_group_metric`."""
  while isinstance(function, functools.partial):
    function = function.func
  if isinstance(function, seqio.CacheDatasetPlaceholder):
    return "CacheDatasetPlaceholder"
  made_by, _, own = function.__qualname__.partition(".<locals>.")
  if made_by == "add_task_with_sentinels":
    own = own.rpartition(".")[2].lstrip("_")
    return {"new_fn": "remove_sentinels", "postprocess_fn_remove_sentinel": "remove_sentinels"}.get(
        own, {"my_fn": "add_sentinels"}.get(own, own))
  return made_by


def arguments_of(function):
  found = dict(getattr(function, "keywords", None) or {})
  return {k: list(v) if isinstance(v, tuple) else v for k, v in sorted(found.items())
          if k != "preserve_final_n_tokens_when_trimming"}


def vocabulary_of(feature):
  v = feature.vocabulary
  return [v.sentencepiece_model_file, v._extra_ids]


def splits_of(source):
  """The splits that the task names; None where it takes those of the data set."""
  loader = source._tfds_dataset
  named = loader._split_map or source._splits
  return sorted(named) if named else None


def task_of(task):
  found = {
      "tfds_name": task.source.tfds_dataset.name,
      "splits": splits_of(task.source),
      "preprocessors": [[name_of(p), arguments_of(p)] for p in task.preprocessors],
      "features": {k: [f.add_eos, f.required, *vocabulary_of(f)]
                   for k, f in sorted(task.output_features.items())},
      "postprocess_fn": task.postprocessor and name_of(task.postprocessor),
      "metric_fns": [name_of(m) for m in task.metric_fns],
  }
  if found["features"] == DEFAULT_FEATURES:
    del found["features"]
  return found


SPM = "gs://t5-data/vocabs/cc_all.32000/sentencepiece.model"
# Of most tasks: add_eos, required, the vocabulary's file and its extra ids.
DEFAULT_FEATURES = {"inputs": [True, False, SPM, 100], "targets": [True, True, SPM, 100]}


def rate_of(rate):
  return name_of(rate) if callable(rate) else rate


def mixture_of(mixture):
  return {name: rate_of(rate) for name, rate in sorted(mixture.rate_per_task_name.items())}


if __name__ == "__main__":
  tasks = {n: task_of(seqio.TaskRegistry.get(n)) for n in sorted(seqio.TaskRegistry.names())}
  mixtures = {n: mixture_of(seqio.MixtureRegistry.get(n)) for n in sorted(seqio.MixtureRegistry.names())}
  lines = lambda d: ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in d.items())
  with open(os.path.join(HERE, "t5_tasks.json"), "w") as f:
    f.write('{"default_features": ' + json.dumps(DEFAULT_FEATURES) + ',\n"tasks": {\n' + lines(tasks) + '},\n"mixtures": {\n' + lines(mixtures) + "}}\n")
