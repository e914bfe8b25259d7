"""Writes packing.json and interleave.json, which the tests compare with.

Made with seqio 0.0.20, tensorflow-cpu 2.21.0, Python 3.11:
    python tests/pipeline/data/reference/seqio_reference.py
"""

import json
import os
import random
import tempfile

os.environ["CUDA_VISIBLE_DEVICES"] = ""
import seqio
import tensorflow as tf

HERE = os.path.dirname(os.path.abspath(__file__))


def converted(examples, lengths, pack):
  """What EncDecFeatureConverter makes of the examples."""
  signature = {k: tf.TensorSpec([None], tf.int32) for k in ("inputs", "targets")}
  dataset = tf.data.Dataset.from_generator(
      lambda: ({k: e[k] for k in signature} for e in examples), output_signature=signature)
  dataset = seqio.utils.trim_dataset(dataset, lengths, {k: None for k in lengths})
  converter = seqio.EncDecFeatureConverter(pack=pack)
  rows = [{k: v.tolist() for k, v in row.items()}
          for row in converter(dataset, lengths).as_numpy_iterator()]
  return {k: [row[k] for row in rows] for k in sorted(rows[0])}


def random_examples(rng, count, longest_inputs, longest_targets):
  """Mostly plain sequences that end in EOS; some empty, some with zeros within."""

  def sequence(longest):
    length = rng.randint(1, longest)
    tokens = [rng.randint(2, 99) for _ in range(length - 1)] + [1]
    kind = rng.random()
    if kind < 0.05:
      return []
    if kind < 0.1:
      tokens[rng.randrange(length)] = 0
    return tokens

  return [{"inputs": sequence(longest_inputs), "targets": sequence(longest_targets)}
          for _ in range(count)]


def packing():
  rng = random.Random(0)
  cases = []
  for lengths, longest, count in [
      ((16, 8), (7, 4), 120), ((8, 16), (12, 6), 60), ((24, 24), (9, 30), 60),
      ((5, 3), (5, 3), 40), ((32, 16), (3, 2), 100)]:
    examples = random_examples(rng, count, *longest)
    lengths = {"inputs": lengths[0], "targets": lengths[1]}
    cases.append({"lengths": lengths, "examples": examples,
                  "packed": converted(examples, lengths, True),
                  "unpacked": converted(examples[:10], lengths, False)})
  return cases


def interleave():
  """The order of lines when nothing is shuffled: `file.line`."""
  cases = []
  for counts, shards in [([40, 3, 17, 25], [1, 2]), ([5] * 20 + [40, 1], [1, 3]), ([7, 0, 9], [4])]:
    with tempfile.TemporaryDirectory() as folder:
      for i, count in enumerate(counts):
        with open(os.path.join(folder, f"part-{i:02}.txt"), "w") as f:
          f.writelines(f"{i}.{j}\n" for j in range(count))
      source = seqio.TextLineDataSource({"train": os.path.join(folder, "part-*.txt")})
      for num_shards in shards:
        orders = []
        for index in range(num_shards):
          info = seqio.ShardInfo(index=index, num_shards=num_shards)
          at_source = len(counts) >= num_shards
          dataset = source.get_dataset(
              split="train", shuffle=False, shard_info=info if at_source else None)
          if not at_source:
            dataset = dataset.shard(num_shards, index)
          orders.append([line.decode() for line in dataset.as_numpy_iterator()])
        cases.append({"lines_per_file": counts, "num_shards": num_shards, "orders": orders})
  return cases


def write(name, cases):
  with open(os.path.join(HERE, name), "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases) + "\n]\n")


if __name__ == "__main__":
  write("packing.json", packing())
  write("interleave.json", interleave())
