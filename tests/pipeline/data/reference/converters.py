"""Writes converters.json: what each of SeqIO's feature converters makes of small examples.

Made with seqio 0.0.20, tensorflow-cpu 2.21.0, Python 3.11:
    python tests/pipeline/data/reference/converters.py
"""

import json
import os
import random

os.environ["CUDA_VISIBLE_DEVICES"] = ""
import seqio
import tensorflow as tf

HERE = os.path.dirname(os.path.abspath(__file__))

# (class, its own arguments, task features, whether it packs)
CONVERTERS = [
    ("EncDecFeatureConverter", {}, ["inputs", "targets"], True),
    ("LMFeatureConverter", {}, ["targets"], True),
    ("PrefixLMFeatureConverter", {}, ["inputs", "targets"], True),
    ("PrefixLMFeatureConverter", {"loss_on_targets_only": False}, ["inputs", "targets"], True),
    ("PrefixSuffixLMFeatureConverter", {}, ["inputs", "targets", "suffixes"], True),
    ("DecoderFeatureConverter", {}, ["targets"], True),
    ("DecoderFeatureConverter", {}, ["inputs", "targets"], True),
    ("DecoderFeatureConverter", {"loss_on_targets_only": False},
     ["inputs", "targets", "suffixes"], True),
    ("EncoderFeatureConverter", {"mask_id": 9}, ["inputs", "targets"], True),
    ("PrePackedEncDecFeatureConverter", {}, [
        "inputs", "inputs_positions", "inputs_segment_ids",
        "targets", "targets_positions", "targets_segment_ids"], False),
    ("PassThroughFeatureConverter", {}, ["inputs", "targets"], False),
    ("PrePackedLMFeatureConverter", {}, ["targets"], False),
    ("PrePackedPrefixLMFeatureConverter", {}, ["inputs", "targets"], False),
]

# Whose examples are rows already, each feature as long as its row.
ROWS = {
    "PassThroughFeatureConverter": [],
    "PrePackedLMFeatureConverter": [
        "decoder_input_tokens", "decoder_loss_weights", "decoder_positions",
        "decoder_segment_ids", "decoder_target_tokens"],
    "PrePackedPrefixLMFeatureConverter": [
        "decoder_input_tokens", "decoder_loss_weights", "decoder_positions",
        "decoder_segment_ids", "decoder_target_tokens", "decoder_causal_attention"],
}


def sequence(rng, longest, may_be_empty):
  length = rng.randint(0 if may_be_empty else 1, longest)
  return [rng.randint(2, 12) for _ in range(length)]


def examples_of(rng, name, features, count):
  examples = []
  for _ in range(count):
    example = {k: sequence(rng, 5, k == "suffixes" or (k == "inputs" and rng.random() < 0.2))
               for k in features}
    if name == "EncoderFeatureConverter":
      example["targets"] = [t + 1 for t in example["inputs"]]
    if name.startswith("PrePacked"):
      for k in ("inputs", "targets"):
        tokens = example[k]
        split = rng.randint(0, len(tokens))
        example[k + "_segment_ids"] = [1] * split + [2] * (len(tokens) - split)
        example[k + "_positions"] = list(range(split)) + list(range(len(tokens) - split))
    examples.append(example)
  return examples


def rows_of(rng, names, lengths, count):
  """Numbers that no converter has made, so that a changed one shows, and a feature to leave out."""
  longest = sum(lengths.values())
  sizes = {k: longest for k in names} | {"notes": 3} if names else lengths
  return [{k: [rng.randint(0, 12) for _ in range(size)] for k, size in sizes.items()}
          for _ in range(count)]


def convert(converter, examples, lengths):
  signature = {k: tf.TensorSpec([None], tf.int32) for k in examples[0]}
  dataset = tf.data.Dataset.from_generator(lambda: examples, output_signature=signature)
  rows = [{k: v.tolist() for k, v in row.items()}
          for row in converter(dataset, lengths).as_numpy_iterator()]
  return {k: [row[k] for row in rows] for k in sorted(rows[0])}


def cases():
  rng = random.Random(0)
  out = []
  for name, arguments, features, packs in CONVERTERS:
    for pack in ([False, True] if packs else [False]):
      longest = 7 if name != "EncoderFeatureConverter" else 11
      lengths = {k: longest if k.startswith("inputs") else 11 for k in features}
      if name in ROWS:
        examples = rows_of(rng, ROWS[name], lengths, 14)
      else:
        examples = examples_of(rng, name, features, 14)
      converter = getattr(seqio, name)(pack=pack, **arguments)
      out.append({"converter": name, "arguments": arguments, "pack": pack, "lengths": lengths,
                  "examples": examples, "rows": convert(converter, examples, lengths)})
  return out


if __name__ == "__main__":
  with open(os.path.join(HERE, "converters.json"), "w") as f:
    lines = (json.dumps(case, separators=(",", ":")) for case in cases())
    f.write("[\n" + ",\n".join(lines) + "\n]\n")
