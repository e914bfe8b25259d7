"""Writes small models of the kinds that `../sentencepiece.model` is not, and ids.json: their ids of its lines, and what
SeqIO makes of them with that model and other rules of normalization.

Made with seqio 0.0.20 and sentencepiece 0.2.1, Python 3.11:
    python tests/pipeline/data/reference/sentencepiece/make.py
"""

import importlib.util
import json
import os
import random
import tempfile

import sentencepiece
import seqio
from sentencepiece import sentencepiece_model_pb2

HERE = os.path.dirname(os.path.abspath(__file__))
REFERENCE = os.path.dirname(HERE)
COMMON = dict(pad_id=0, eos_id=1, unk_id=2, bos_id=-1, num_threads=1, minloglevel=2)
# Longer keys win, keys may vanish, grow, or become spaces.
RULES = [("A", "a"), ("B", "b"), ("ß", "ss"), ("e\u0301", "é"), ("ﬁ", "fi"), ("\t", " "), ("\u00a0", " "), ("\u3000", " "),
         ("\u200b", ""), ("...", "…"), ("½", " 1/2 ")]
MODELS = {
    "bpe": dict(model_type="bpe", vocab_size=700, normalization_rule_name="identity"),
    "bpe_bytes": dict(model_type="bpe", vocab_size=900, normalization_rule_name="identity", byte_fallback=True,
                      remove_extra_whitespaces=False, allow_whitespace_only_pieces=True, split_digits=True,
                      character_coverage=0.98, user_defined_symbols=["<sep>", "lon<", "mer ha"], treat_whitespace_as_suffix=True),
    "char": dict(model_type="char", vocab_size=60, normalization_rule_tsv="rules.tsv", user_defined_symbols=["<sep>", "lon"]),
    "word": dict(model_type="word", vocab_size=500, normalization_rule_tsv="rules.tsv", control_symbols=["<ctl>"]),
}


def made_up(name):
  spec = importlib.util.spec_from_file_location(name, os.path.join(REFERENCE, f"{name}.py"))
  module = importlib.util.module_from_spec(spec)
  spec.loader.exec_module(module)
  return module


def codepoints(text):
  return " ".join(f"{ord(c):x}" for c in text)


def main():
  assert sentencepiece.__version__ == "0.2.1"
  corpus = list(made_up("sentencepiece_reference").corpus(random.Random(0)))
  with open(os.path.join(REFERENCE, "sentencepiece.json")) as f:
    lines = json.load(f)["lines"]
  ids = {}
  with tempfile.TemporaryDirectory() as folder:
    with open(os.path.join(folder, "rules.tsv"), "w") as f:
      f.writelines(f"{codepoints(source)}\t{codepoints(target)}\n" for source, target in RULES)
    os.chdir(folder)
    for name, options in MODELS.items():
      sentencepiece.SentencePieceTrainer.train(
          sentence_iterator=iter(corpus), model_prefix="m", **{**COMMON, **options})
      with open("m.model", "rb") as f, open(os.path.join(HERE, f"{name}.model"), "wb") as out:
        out.write(f.read())
      processor = sentencepiece.SentencePieceProcessor(model_file="m.model")
      ids[name] = [processor.encode(line) for line in lines]
  overridden = seqio.SentencePieceVocabulary(
      os.path.join(REFERENCE, "sentencepiece.model"), extra_ids=5,
      normalizer_spec_overrides=sentencepiece_model_pb2.NormalizerSpec(
          add_dummy_prefix=False, remove_extra_whitespaces=False))
  found = [overridden.encode(line) for line in lines]
  with open(os.path.join(HERE, "ids.json"), "w") as f:
    json.dump({"models": ids, "overridden": {"ids": found, "texts": [overridden.decode(i) for i in found]}}, f,
              separators=(",", ":"))


if __name__ == "__main__":
  main()
