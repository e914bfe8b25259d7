"""Writes sentencepiece.model and sentencepiece.json, which the tests compare with.

The model is trained on made-up text. Made with seqio 0.0.20 and sentencepiece 0.2.1, Python 3.11:
    python tests/pipeline/data/reference/sentencepiece_reference.py
"""

import json
import os
import random
import tempfile

import sentencepiece
import seqio

HERE = os.path.dirname(os.path.abspath(__file__))
MODEL = os.path.join(HERE, "sentencepiece.model")
SYLLABLES = ["ba", "ce", "di", "fo", "gu", "ha", "lon", "mer", "nis", "pra", "sti", "tor", "ul", "șa",
             "ță", "în", "ê", "ñu", "да", "не", "日", "本", "語"]
MARKS = [".", ",", "!", " ?", "...", " - ", "'", '"', "(", ")", ";", "\u2014", "1", "42", "3.14", "%"]
ODD = ["  ", "\t", "\u00a0", "\u3000", "\u200b", "\ufeff", "e\u0301", "ﬁ", "Ａ１", "½", "①", "\u0000", "\x07",
       "🤗", "👩‍👩‍👧", "한국어", "हिन्दी", "ไทย", "▁", "<extra_id_0>", "<extra_id_7>", "<extra_id_99>", "</s>",
       "<unk>", "<pad>", "\u2581x", "\r", "İ", "ß", "a\u0308\u0323", "\ufffd", "𝔘𝔫𝔦", "\U0010ffff", "…"]


def words(rng, syllables):
  return "".join(rng.choice(syllables) for _ in range(rng.randint(1, 4)))


def corpus(rng):
  vocabulary = [words(rng, SYLLABLES) for _ in range(3000)]
  for _ in range(4000):
    yield " ".join(rng.choice(vocabulary) + rng.choice(["", "", "", "."] + MARKS)
                   for _ in range(rng.randint(3, 30)))


def odd_lines(rng):
  yield from ["", " ", "this is a test", " leading", "trailing ", "a\u0301", "ﬃ", "<extra_id_0>",
              "I like <extra_id_1> and <extra_id_2>ly", "jel<extra_id_3>"]
  yield from ODD
  for _ in range(260):
    pieces = rng.choices([SYLLABLES, MARKS, ODD, [" "]], [6, 2, 2, 3], k=rng.randint(1, 40))
    yield "".join(rng.choice(piece) for piece in pieces)


def train():
  rng = random.Random(0)
  with tempfile.TemporaryDirectory() as folder:
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=corpus(rng), model_prefix=os.path.join(folder, "m"), vocab_size=1000,
        pad_id=0, eos_id=1, unk_id=2, bos_id=-1, num_threads=1, minloglevel=2)
    with open(os.path.join(folder, "m.model"), "rb") as f, open(MODEL, "wb") as out:
      out.write(f.read())


if __name__ == "__main__":
  assert sentencepiece.__version__ == "0.2.1"
  train()
  rng = random.Random(1)
  lines = list(odd_lines(rng))
  reference = {"lines": lines, "vocabularies": []}
  for extra_ids, reverse in [(0, True), (100, True), (8, False)]:
    vocabulary = seqio.SentencePieceVocabulary(MODEL, extra_ids, reverse_extra_ids=reverse)
    ids = [vocabulary.encode(line) for line in lines]
    # Ids of any kind, EOS and ids out of range among them.
    odd_ids = [[rng.randrange(0, vocabulary.vocab_size + 30) for _ in range(12)] for _ in range(60)]
    odd_ids += [[5, 6, 1, 7], [], [0, 0], [2, 2], [1]]
    reference["vocabularies"].append({
        "extra_ids": extra_ids, "reverse_extra_ids": reverse, "vocab_size": vocabulary.vocab_size,
        "ids": ids, "texts": [vocabulary.decode(i) for i in ids],
        "odd_ids": odd_ids, "odd_texts": [vocabulary.decode(i) for i in odd_ids]})
  with open(os.path.join(HERE, "sentencepiece.json"), "w") as f:
    json.dump(reference, f, ensure_ascii=True, separators=(",", ":"))
