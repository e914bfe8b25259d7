"""Writes cache/ with SeqIO's own script, and cache.json, what SeqIO reads of it.

Made with seqio 0.0.20, apache-beam 2.77.0, sentencepiece 0.2.0, tensorflow-cpu 2.21.0, Python 3.11:
    python tests/pipeline/data/reference/seqio_cache.py
The other direction, SeqIO reading a cache of a task with byte-vocabulary features made by Gimlet:
    python tests/pipeline/data/reference/seqio_cache.py read DIR TASK SPLIT
"""

import json
import os
import shutil
import sys
import tempfile

os.environ["CUDA_VISIBLE_DEVICES"] = ""
import seqio
import tensorflow as tf

HERE = os.path.dirname(os.path.abspath(__file__))
NAME = "reference:cache"


def add_task(name, source, preprocessors):
  feature = seqio.Feature(seqio.ByteVocabulary(), required=False)
  seqio.TaskRegistry.add(
      name, source, preprocessors=[*preprocessors, seqio.CacheDatasetPlaceholder()],
      output_features={"inputs": feature, "targets": feature})


def examples(split, shuffle_files, seed=None):
  """Features of every type that a cache can hold, empty lists among them."""
  del shuffle_files, seed
  count = {"train": 20, "validation": 3}[split]
  dataset = tf.data.Dataset.range(count, output_type=tf.int32)
  return dataset.map(lambda i: {
      "inputs": tf.strings.join(["ä", tf.strings.as_string(i)]),
      "targets": tf.strings.reduce_join(tf.repeat("x", i % 4)),
      "index": i,
      "is_even": i % 2 == 0,
      "large": tf.cast(i, tf.int64) + 2**40,
      "score": tf.cast(i, tf.float32) / 4,
      "scores": tf.repeat(tf.cast(i, tf.float32) / 8, i % 3),
      "names": tf.repeat(tf.strings.as_string(i), i % 3),
  })


def listed(dataset):
  def plain(value):
    return value.decode() if isinstance(value, bytes) else value
  def flat(value):
    return [plain(item) for item in value.tolist()] if getattr(value, "shape", ()) else plain(
        value.item() if hasattr(value, "item") else value)
  return [{k: flat(v) for k, v in example.items()} for example in dataset.as_numpy_iterator()]


def line(example):
  return json.dumps(example, ensure_ascii=False, sort_keys=True)


def read(folder, name, split):
  seqio.set_global_cache_dirs([folder])
  task = seqio.get_mixture_or_task(name)
  return listed(task.get_dataset(split=split, use_cached=True, shuffle=False))


def write():
  from absl import flags
  from seqio.scripts import cache_tasks_main
  source = seqio.FunctionDataSource(examples, splits=["train", "validation"])
  add_task(NAME, source, [seqio.preprocessors.tokenize])
  with tempfile.TemporaryDirectory() as folder:
    flags.FLAGS(["cache", f"--output_cache_dir={folder}", "--min_shards=3"])
    cache_tasks_main.main(None)
    target = os.path.join(HERE, "cache")
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(folder, target)
    splits = {split: read(folder, NAME, split) for split in ["train", "validation"]}
  with open(os.path.join(HERE, "cache.json"), "w") as f:
    lines = [f'"{split}": [\n' + ",\n".join(line(e) for e in examples) + "\n]"
             for split, examples in splits.items()]
    f.write("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
  if sys.argv[1:2] == ["read"]:
    folder, name, split = sys.argv[2:]
    add_task(name, seqio.FunctionDataSource(lambda split, shuffle_files: None, [split]), [])
    for example in read(folder, name, split):
      print(line(example))
  else:
    write()
