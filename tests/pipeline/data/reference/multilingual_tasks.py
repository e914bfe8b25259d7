"""Writes multilingual_tasks.json, the tasks and mixtures that the multilingual_t5 and byt5 libraries register.

Made with t5 0.9.4, seqio 0.0.20, multilingual_t5 at 9dcd60f, byt5 at 7d4efdd, Python 3.11, the two
repositories (github.com/google-research) in one folder SOURCES:
    python tests/pipeline/data/reference/multilingual_tasks.py SOURCES
"""

import functools
import json
import os
import sys

from stand_ins import stand_in_for_t5

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, sys.argv[1])
stand_in_for_t5()
import seqio
import t5
t5.data, t5.evaluation = sys.modules["t5.data"], sys.modules["t5.evaluation"]
from t5.data import glue_utils, postprocessors, preprocessors, utils
for source in (seqio, utils, glue_utils):
  for name in dir(source):
    if not name.startswith("__"):
      setattr(t5.data, name, getattr(source, name))
t5.data.preprocessors, t5.data.postprocessors = preprocessors, postprocessors
t5.data.glue_utils = glue_utils
import t5.data.tasks

OF_T5 = set(seqio.TaskRegistry.names()), set(seqio.MixtureRegistry.names())
import multilingual_t5.tasks
import byt5.tasks


def name_of(function):
  while isinstance(function, functools.partial):
    function = function.func
  if isinstance(function, seqio.CacheDatasetPlaceholder):
    return "CacheDatasetPlaceholder"
  return function.__qualname__.partition(".<locals>.")[0]


def step_of(function):
  """A preprocessor's name, with the arguments that tell tasks of one family apart."""
  arguments = dict(getattr(function, "keywords", None) or {})
  kept = ("target_languages", "lang", "benchmark_name", "mean_noise_span_length", "article_key",
          "summary_key", "key_map", "correct_referent_only", "source_language", "target_language")
  return [name_of(function), {k: v for k, v in sorted(arguments.items()) if k in kept}]


def metric_of(function):
  lang = (getattr(function, "keywords", None) or {}).get("lang")
  return name_of(function) + (f" {lang}" if lang else "")


def vocabulary_of(feature):
  v = feature.vocabulary
  return getattr(v, "sentencepiece_model_file", type(v).__name__)


def source_of(source):
  if isinstance(source, seqio.FunctionDataSource):
    return source._dataset_fn.__name__, sorted(source.splits)
  loader = source._tfds_dataset
  splits = loader._split_map or source._splits
  named = dict(splits) if isinstance(splits, dict) else sorted(splits or [])
  return loader.name, named or None


def shape_of(task):
  """What tasks of one family share, whatever their features."""
  return {
      "preprocessors": [step_of(p) for p in task.preprocessors],
      "postprocess_fn": task.postprocessor and name_of(task.postprocessor),
      "metric_fns": [metric_of(m) for m in task.metric_fns],
  }


def rate_of(rate):
  return name_of(rate) if callable(rate) else rate


if __name__ == "__main__":
  shapes, features, tasks = [], [], {}
  for name in sorted(set(seqio.TaskRegistry.names()) - OF_T5[0]):
    task = seqio.TaskRegistry.get(name)
    shape = shape_of(task)
    if shape not in shapes:
      shapes.append(shape)
    these = {k: [f.add_eos, f.required, vocabulary_of(f)] for k, f in sorted(task.output_features.items())}
    if these not in features:
      features.append(these)
    tasks[name] = [*source_of(task.source), shapes.index(shape), features.index(these)]
  mixtures = {}
  for name in sorted(set(seqio.MixtureRegistry.names()) - OF_T5[1]):
    rates = {task: rate_of(rate) for task, rate in seqio.MixtureRegistry.get(name)._task_to_rate.items()}
    same = len(set(rates.values())) == 1
    mixtures[name] = {"rate": next(iter(rates.values())), "tasks": sorted(rates)} if same else rates
  lines = lambda items: ",\n".join(items)
  named = lambda d: lines(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in d.items())
  with open(os.path.join(HERE, "multilingual_tasks.json"), "w") as f:
    f.write('{"features": ' + json.dumps(features) + ',\n"shapes": [\n'
            + lines("  " + json.dumps(s) for s in shapes) + '],\n"tasks": {\n'
            + named(tasks) + '},\n"mixtures": {\n' + named(mixtures) + "}}\n")
