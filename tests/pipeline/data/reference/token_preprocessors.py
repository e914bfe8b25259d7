"""Writes token_preprocessors.json, which the tests compare with.

Made with t5 0.9.4, seqio 0.0.20, tensorflow-cpu 2.21.0, Python 3.11:
    python tests/pipeline/data/reference/token_preprocessors.py

What draws random numbers is called where nothing is left to chance: masks are given, chunks have one
possible place, spans one possible order. Else all that can be drawn is listed, or how often each is.
"""

import collections
import json
import os
import random

from stand_ins import stand_in_for_t5

import gin
import seqio
import tensorflow as tf

stand_in_for_t5()
import t5.data.preprocessors as prep

HERE = os.path.dirname(os.path.abspath(__file__))
VOCABULARY = seqio.PassThroughVocabulary(1000, eos_id=1)


def features(names, add_eos=True, rank=1):
  return {name: seqio.Feature(VOCABULARY, add_eos=add_eos, rank=rank) for name in names}


def rows(values):
  return tf.ragged.constant(values, dtype=tf.int32, ragged_rank=1)


def listed(value):
  return value.to_list() if isinstance(value, tf.RaggedTensor) else value.numpy().tolist()


def outputs(dataset):
  return [{k: listed(v) for k, v in sorted(example.items())} for example in dataset]


def dataset(examples):
  """One tensor for each feature: rank 1, or ragged where values are lists."""

  def tensors(example):
    return {k: rows(v) if v and isinstance(v[0], list) else tf.constant(v, tf.int32)
            for k, v in example.items()}

  def signature(value):
    if value and isinstance(value[0], list):
      return tf.RaggedTensorSpec([None, None], tf.int32, ragged_rank=1)
    return tf.TensorSpec([None], tf.int32)

  spec = {k: signature(v) for k, v in examples[0].items()}
  return tf.data.Dataset.from_generator(
      lambda: (tensors(e) for e in examples), output_signature=spec)


def noise_functions(rng):
  """What each function makes of random tokens under random masks."""
  named = [prep.noise_token_to_sentinel, prep.noise_span_to_sentinel,
           prep.nonnoise_span_to_sentinel, prep.noise_span_to_unique_sentinel,
           prep.nonnoise_span_to_unique_sentinel, prep.drop_noise_tokens,
           prep.drop_nonnoise_tokens]
  cases = []
  for i in range(24):
    length = [0, 1, 2][i] if i < 3 else rng.randint(2, 20)
    tokens = [rng.randint(3, 900) for _ in range(length)]
    mask = [rng.random() < [0.15, 0.5, 0.85, 1.1, -1.0][i % 5] for _ in range(length)]
    of = {f.__name__: f(tf.constant(tokens, tf.int32), tf.constant(mask, tf.bool), VOCABULARY,
                        seeds=((1, 2), (3, 4))).numpy().tolist() for f in named}
    cases.append({"tokens": tokens, "mask": [int(m) for m in mask], "outputs": of})
  return cases


def frequencies(count=20000):
  """How often the functions that draw tokens make each of their outcomes."""
  tokens, mask = tf.constant([3, 4, 5, 6], tf.int32), tf.constant([True, False, True, True])
  vocabulary = seqio.PassThroughVocabulary(7)
  cases = []
  for name, bindings in [("permute_noise_tokens", {}), ("noise_token_to_gathered_token", {}),
                         ("noise_token_to_random_token", {"num_reserved_tokens": 4}),
                         ("noise_token_to_random_token_or_sentinel", {"random_prob": 0.5})]:
    make = lambda i, f=getattr(prep, name), b=bindings: f(
        tokens, mask, vocabulary, seeds=tf.stack([[i, 1], [i, 2]]), **b)
    made = tf.data.Dataset.range(count).map(make).as_numpy_iterator()
    counts = collections.Counter(tuple(row.tolist()) for row in made)
    cases.append({"name": name, "bindings": bindings, "tokens": tokens.numpy().tolist(),
                  "mask": mask.numpy().astype(int).tolist(), "num_ids": vocabulary.vocab_size,
                  "outputs": [[list(row), round(n / count, 5)] for row, n in sorted(counts.items())]})
  return cases


def masks():
  """Of every length, how many tokens t5 masks and in how many spans; and the masks with no choice."""
  def seen(mask):
    mask = mask.numpy().tolist()
    return sum(mask), sum(b and not a for a, b in zip([False] + mask, mask))

  spans = []
  for density, mean in [(0.15, 3.0), (0.5, 3.0), (0.25, 2.0), (0.5, 1.0), (0.0, 3.0), (0.2, 10.0)]:
    counts = []
    for n in list(range(1, 40)) + [114, 512, 568]:
      try:
        mask = prep.random_spans_noise_mask(
            tf.constant(n), density, [(1, 2), (3, 4)], mean_noise_span_length=mean)
        counts.append([n, *seen(mask)])
      except tf.errors.InvalidArgumentError:
        pass  # Fewer tokens than spans.
    spans.append({"density": density, "mean": mean, "counts": counts})
  prefixes = []
  for density in (0.5, 0.3, 0.25, 0.0):
    for n in (0, 1, 2, 3, 10, 57):
      seen_prefixes = [int(tf.reduce_sum(tf.cast(prep.random_prefix_noise_mask(
          tf.constant(n), density, [(s, s)]), tf.int32))) for s in range(300 if n < 57 else 1500)]
      prefixes.append({"density": density, "length": n, "fewest": min(seen_prefixes),
                       "most": max(seen_prefixes)})
  regular = []
  for density, low, high in [(0.15, 1, 5), (0.5, 2, 2), (0.35, 3, 4), (1.0, 1, 2)]:
    found = set()
    for s in range(600):
      mask = prep.regular_noise_mask(tf.constant(12), density, [(s, 1), (s, 2)],
                                     min_span_length=low, max_span_length=high).numpy()
      found.add("".join("x" if m else "." for m in mask))
    regular.append({"density": density, "low": low, "high": high, "masks": sorted(found)})
  return {"random_spans": spans, "random_prefix": prefixes, "regular": regular}


def helper():
  cases = []
  for arguments in [(512, .15, 3.0, 1, 1), (1024, .15, 3.0, 1, 1), (512, .5, 3.0, 1, 1),
                    (64, .2, 2.0, 1, 1), (64, .2, 1.0, 1, 1), (512, .15, 3.0, 0, 0),
                    (128, .5, 2.0, 0, 1), (128, .3, 5.0, 2, 1), (3, .15, 3.0, 1, 1)]:
    cases.append({"arguments": arguments, "lengths": prep.random_spans_helper(*arguments)})
  return cases


def streams(rng):
  """Whole preprocessors over examples: name, bindings, lengths, examples in, examples out."""
  docs = [{"targets": [rng.randint(2, 99) for _ in range(n)]} for n in (5, 0, 13, 1, 8, 21, 2)]
  docs[2]["targets"][4] = 0
  pairs = [{"targets": d["targets"], "weights": [t + 100 for t in d["targets"]],
            "kept": [i], "other": [7]} for i, d in enumerate(docs)]
  both = features(["inputs", "targets"])
  lengths = {"inputs": 6, "targets": 5}
  out = []

  def case(name, function, examples, bindings=None, feats=both, lens=lengths):
    made = outputs(function(dataset(examples)))
    out.append({"name": name, "bindings": bindings or {}, "lengths": lens,
                "add_eos": all(f.add_eos for f in feats.values()),
                "rank": max(f.rank for f in feats.values()),
                "examples": examples, "outputs": made})

  def simple(name, examples, bindings=None, feats=both, lens=lengths, **kwargs):
    function = getattr(prep, name)
    case(name, lambda ds: function(ds, **kwargs, **(bindings or {})), examples, bindings, feats,
         lens)

  sized = {"sequence_length": lengths, "output_features": both}
  plain = features(["inputs", "targets"], add_eos=False)
  simple("select_random_chunk", docs, {"max_length": 30}, output_features=both)
  simple("select_random_chunk", pairs,
         {"max_length": 21, "additional_feature_keys": ["weights"],
          "passthrough_feature_keys": ["kept"]}, output_features=both)
  simple("reduce_concat_tokens", docs, {"batch_size": 3})
  simple("reduce_concat_tokens", docs)
  simple("split_tokens", docs, {"max_tokens_per_segment": 4})
  simple("split_tokens", pairs, {"max_tokens_per_segment": 6, "additional_feature_keys": ["weights"],
                                 "passthrough_feature_keys": ["kept"]})
  simple("split_tokens", docs, {"min_tokens_per_segment": 3, "max_tokens_per_segment": 3})
  simple("split_tokens_to_inputs_length", docs, **sized)
  simple("split_tokens_to_targets_length", docs, **sized)
  simple("split_tokens_to_targets_length", docs, feats=plain, sequence_length=lengths,
         output_features=plain)
  simple("concatenate_and_split_to_fixed_length", docs, **sized)
  simple("trim_tokens_at_front", docs, sequence_length=lengths)
  simple("trim_tokens_at_front", pairs, {"keys_to_trim": ["targets", "absent"]},
         lens={"targets": 3, "absent": 2}, sequence_length={"targets": 3, "absent": 2})
  simple("trim_tokens_at_front", docs, lens={"targets": 1}, sequence_length={"targets": 1})
  answers = [{"inputs": [9, 5, 7, 3, 3, 3], "targets": [5, 7]},
             {"inputs": [3, 5, 7, 9, 11, 13, 15], "targets": [11, 13, 15]},
             {"inputs": [3, 5, 7, 9, 11, 13, 15, 5, 7], "targets": [3, 5, 7, 9, 11, 13]},
             {"inputs": [3, 5, 7, 9, 11, 13, 15], "targets": [5, 9]},
             {"inputs": [3, 5], "targets": [8]}, {"inputs": [], "targets": [5]}]
  simple("trivia_qa_truncate_inputs", [answers[i] for i in (0, 2, 3, 4, 5)], **sized)
  simple("trim_and_pad_dataset", docs, sequence_length=lengths)
  simple("full_lm", docs, **sized)
  simple("targets_for_prefix_lm_objective", docs, lens={"targets": 6},
         sequence_length={"targets": 6}, output_features=both)

  # So short that all noise is one span, which stands at the end.
  spans = {"inputs": 16, "targets": 6}
  for examples, bindings in [
      (docs, {}), (docs, {"merge_examples_to_reduce_padding": False}),
      (docs, {"noise_density": 0.3, "mean_noise_span_length": 4.0, "reserved_for_packing": 5}),
      (pairs, {"merge_examples_to_reduce_padding": False, "passthrough_feature_keys": ["kept"]})]:
    simple("span_corruption", examples, bindings, lens=spans, sequence_length=spans,
           output_features=both)
  lines = ["preprocessors.unsupervised.preprocessors = [@preprocessors.reduce_concat_tokens, "
           "@preprocessors.split_tokens_to_inputs_length, @preprocessors.denoise]",
           "preprocessors.denoise.noise_density = 0.15",
           "preprocessors.denoise.noise_mask_fn = @preprocessors.random_spans_noise_mask",
           "preprocessors.denoise.inputs_fn = @preprocessors.drop_noise_tokens",
           "preprocessors.denoise.targets_fn = @preprocessors.drop_nonnoise_tokens"]
  gin.parse_config(lines)
  simple("unsupervised", docs, lens=spans, sequence_length=spans, output_features=both)
  gin.clear_config()
  out[-1]["gin"] = lines

  for names in [("noise_span_to_unique_sentinel", "nonnoise_span_to_unique_sentinel"),
                ("drop_nonnoise_tokens", "drop_noise_tokens"), ("noise_token_to_sentinel", None)]:
    # Density 1 masks all tokens, 0 none.
    for density in (0.0, 1.0):
      bindings = {"noise_density": density, "noise_mask_fn": "iid_noise_mask",
                  "inputs_fn": names[0], "targets_fn": names[1],
                  "passthrough_feature_keys": ["kept"]}
      call = {k: getattr(prep, v) if k.endswith("_fn") and v else v for k, v in bindings.items()}
      case("denoise", lambda ds, call=call: prep.denoise(ds, both, **call), pairs, bindings)

  # Ranks 1 and 2: EOS after trimming goes to every row.
  ranked = features(["inputs", "targets"], rank=2)
  ragged = [{"inputs": [[5, 6, 7], [8]], "targets": [[2], [3, 4, 5, 6, 7, 8]], "other": [[1]]},
            {"inputs": [[9]], "targets": [[2, 3, 4, 5], [6]], "other": [[1, 2]]}]
  flat = [{"inputs": [5, 6, 7, 8, 9, 10, 11], "targets": [2], "other": [1, 2, 3]},
          {"inputs": [], "targets": [2, 3, 4, 5], "other": []}]
  short = {"inputs": 3, "targets": 4}
  only = {"targets": 4}
  sp = seqio.preprocessors
  for examples, feats in [(ragged, ranked), (flat, both), (flat, plain)]:
    case("append_eos", lambda ds: sp.append_eos(ds, feats), examples, feats=feats, lens=short)
    for lens in (short, only):
      case("append_eos_after_trim",
           lambda ds: sp.append_eos_after_trim(ds, feats, sequence_length=lens),
           examples, feats=feats, lens=lens)
  case("truncate_inputs_left", lambda ds: sp.truncate_inputs_left(ds, sequence_length=short), flat,
       lens=short)
  case("tokenize_and_append_eos", lambda ds: sp.tokenize_and_append_eos(ds, ranked), ragged,
       feats=ranked, lens=short)
  case("tokenize_and_append_eos", lambda ds: sp.tokenize_and_append_eos(ds, both), flat, lens=short)
  case("tokenize", lambda ds: sp.tokenize(ds, both, copy_pretokenized=False), flat,
       {"copy_pretokenized": False}, lens=short)
  return out


def draws():
  """All that comes of 1500 copies of an example: few enough outcomes for each to turn up."""
  both = features(["inputs", "targets"])
  tokens = {"targets": list(range(2, 9)), "weights": list(range(12, 19))}
  question = {"inputs": [3, 5, 7, 9, 5, 7, 13, 15, 17], "targets": [5, 7]}
  late = {"inputs": [3, 9, 9, 9, 9, 9, 5, 7], "targets": [5, 7]}
  long = {"targets": list(range(2, 42))}
  short = {"targets": [5, 6, 7]}
  out = []
  for name, bindings, lengths, example in [
      ("select_random_chunk", {"max_length": 3, "additional_feature_keys": ["weights"]}, None, tokens),
      ("select_random_chunk", {"max_length": 3, "uniform_random_start": True}, None, tokens),
      ("select_random_chunk", {"max_length": 9, "uniform_random_start": True}, None, tokens),
      ("select_random_chunk", {"max_length": 5, "min_length": 2}, None, tokens),
      ("select_random_chunk", {"max_length": 4, "min_length": 2, "uniform_random_start": True}, None,
       tokens),
      ("select_random_chunk", {}, {"targets": 4}, tokens),
      ("trivia_qa_truncate_inputs", {}, {"inputs": 4, "targets": 9}, question),
      ("trivia_qa_truncate_inputs", {}, {"inputs": 7, "targets": 9}, question),
      ("trivia_qa_truncate_inputs", {}, {"inputs": 4, "targets": 9}, late),
      ("split_tokens_to_random_length", {}, {"inputs": 13, "targets": 9}, long),
      ("split_tokens", {"min_tokens_per_segment": 2, "max_tokens_per_segment": 6}, None, tokens),
      # With EOS inputs of 4 hold 3 tokens: pieces of joined examples are the examples.
      ("iid_denoising", {}, {"inputs": 4, "targets": 9}, short),
      ("prefix_lm", {}, {"inputs": 13, "targets": 9}, long),
      ("prefix_lm", {"noise_density": 0.25}, {"inputs": 13, "targets": 9}, tokens),
      ("span_corruption", {"noise_density": 0.5, "mean_noise_span_length": 2.0,
                           "merge_examples_to_reduce_padding": False},
       {"inputs": 8, "targets": 8}, tokens)]:
    function = getattr(prep, name)
    kwargs = {k: v for k, v in (("sequence_length", lengths), ("output_features", both))
              if v and not (name == "split_tokens")}
    made = outputs(function(dataset([example] * 1500), **kwargs, **bindings))
    seen = sorted({json.dumps(o, sort_keys=True) for o in made})
    out.append({"name": name, "bindings": bindings, "lengths": lengths or {}, "example": example,
                "outputs": [json.loads(o) for o in seen]})
  return out


def texts():
  """Lists of texts, which become rows of token ids; EOS of `with_eos` goes to the last row."""
  vocabulary = seqio.SentencePieceVocabulary(os.path.join(HERE, "sentencepiece.model"))
  both = {"inputs": seqio.Feature(vocabulary, rank=2), "targets": seqio.Feature(vocabulary)}
  examples = [{"inputs": ["one line", "", "and two"], "targets": "three"}, {"inputs": ["more"], "targets": ""}]
  ds = tf.data.Dataset.from_generator(lambda: iter(examples), output_signature={
      "inputs": tf.TensorSpec([None], tf.string), "targets": tf.TensorSpec([], tf.string)})
  sp = seqio.preprocessors
  made = {"tokenize": sp.tokenize(ds, both, copy_pretokenized=False),
          "tokenize_and_append_eos": sp.tokenize_and_append_eos(ds, both, copy_pretokenized=False)}
  return {"examples": examples, "outputs": {k: outputs(v) for k, v in made.items()}}


def packing(rng):
  """Rows of the prefix LM objective, each with the split that t5 drew: where segment ids change."""
  length = 8
  examples = [{"targets": [rng.randint(2, 99) for _ in range(n)] + [0] * (length - n)}
              for n in (8, 8, 5, 8, 3, 0, 8, 7)]
  lengths = {"inputs": length, "targets": length}
  pairs = outputs(prep.pack_prefix_lm_encoder_decoder(dataset(examples), lengths))
  both = [outputs(prep.pack_prefix_lm_decoder_only(dataset(examples), lengths,
                                                   loss_on_targets_only=only))
          for only in (True, False)]
  return {"length": length, "examples": [e["targets"] for e in examples], "pairs": pairs,
          "on_targets": both[0], "on_all": both[1]}


if __name__ == "__main__":
  tf.random.set_seed(1)
  rng = random.Random(0)
  parts = {"noise_functions": noise_functions(rng), "frequencies": frequencies(), "masks": masks(),
           "helper": helper(), "streams": streams(rng), "draws": draws(), "texts": texts(),
           "packing": packing(rng)}
  with open(os.path.join(HERE, "token_preprocessors.json"), "w") as f:
    def lines(part):
      if isinstance(part, list):
        return "[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in part) + "\n]"
      return json.dumps(part, separators=(",", ":"))
    f.write("{\n" + ",\n".join(f'"{k}":{lines(v)}' for k, v in parts.items()) + "\n}\n")
