"""Writes vocab.txt, a small list of pieces, and word_piece.json: what BERT's tokenizer makes of ../sentencepiece.json's
lines and of odd ones, under every option.

Made with seqio 0.0.20, tensorflow-text 2.21.1, Python 3.11:
    python tests/pipeline/data/reference/word_piece/make.py
"""

import json
import os
import random

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import seqio

HERE = os.path.dirname(os.path.abspath(__file__))
VOCAB = os.path.join(HERE, "vocab.txt")
WORDS = ["ba", "ce", "di", "fo", "gu", "ha", "lon", "mer", "nis", "pra", "sti", "tor", "ul", "bacelon", "the", "The", "big", "ss",
         "sa", "ta", "in", "en", "aff", "est", "да", "не", "日", "本", "語", "é", "ê", "ß", "ñu", "[unused1]", "<", ">", "i̇", "한국어"]
LINES = ["", " ", "The BIG Straße", "unaffable", "ÀÉÎõü a\u0301e\u0308", "日本語 and 本日", "don't (stop)!", "a\u00a0b\u2003c\vd\te\x00f\u200bg",
         "[unused1] [unused12] [unused] [UNK] [MASK]", "x" * 101, "ba" * 50, "ba" * 51, "İstanbul ıI ẞ ﬁ Ａ１ ½ ① Ǆ",
         "ᏣᎳᎩ ꮳꮃꭹ", "a,b.c—d…e«f»$g+h|i~j`k^l", "\u00ad\u200d\ufeff", "ς Σ Ω Å ſ", "lonxlon xlon lonx", "  two  spaces  "]
OPTIONS = [{}, {"lower_case": True}, {"normalization_form": "NFKC"}, {"normalization_form": "NFD"}, {"keep_whitespace": True},
           {"preserve_unused_token": True, "lower_case": False}, {"split_unknown_characters": True},
           {"unknown_token": "[OTHER]", "split_unknown_characters": True}, {"max_bytes_per_word": 9, "max_chars_per_token": 2},
           {"suffix_indicator": "<>", "lower_case": True}]


def pieces():
  letters = "abcdefghijklmnopqrstuvwxyz0123456789șțăî"
  known = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *letters, *".,!?'-()$+"]
  known += ["##" + piece for piece in [*WORDS, *letters] if piece != "x"] + ["<>lon", "<>a"]
  return list(dict.fromkeys(known))


def main():
  with open(VOCAB, "w", encoding="utf-8") as f:
    f.writelines(piece + "\n" for piece in pieces())
  with open(os.path.join(os.path.dirname(HERE), "sentencepiece.json")) as f:
    shared = json.load(f)["lines"]
  rng = random.Random(0)
  ids = [[rng.randrange(0, len(pieces()) + 5) for _ in range(8)] for _ in range(30)] + [[], [102], [5, 102, 6]]
  cases = []
  for options in OPTIONS:
    vocabulary = seqio.BertWordPieceVocabulary(VOCAB, **options)
    # `encode` itself pads each word to the longest's pieces; the tokenizer's own values are the sequence.
    encoded = [vocabulary.tokenizer.tokenize(line).flat_values.numpy().tolist() for line in LINES + shared]
    cases.append({"options": options, "vocab_size": int(vocabulary.vocab_size), "unk_id": int(vocabulary.unk_id),
                  "ids": encoded, "texts": [vocabulary.decode(i) if i else "" for i in ids]})
  with open(os.path.join(HERE, "word_piece.json"), "w") as f:
    json.dump({"lines": LINES, "decoded": ids, "cases": cases}, f, separators=(",", ":"))


if __name__ == "__main__":
  main()
