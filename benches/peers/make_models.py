"""Makes a text in many scripts, and trains SentencePiece models of every kind on it, for `compare_encode.py`.

The text is what gettext catalogues (.mo) under the given folders say, each message once, shuffled; then made-up lines of
every assigned character, of combining marks, emoji, spaces of all kinds, and random code points. Needs sentencepiece 0.2.1.

Usage: python make_models.py OUT_DIR FOLDER...
"""

import gettext
import os
import pathlib
import random
import sys
import unicodedata

import sentencepiece

MAX_BYTES = 24_000_000
ODD_LINES = 40_000
COMMON = dict(vocab_size=16_000, pad_id=0, eos_id=1, unk_id=2, bos_id=-1, input_sentence_size=120_000,
              shuffle_input_sentence=True, num_threads=2, minloglevel=2, hard_vocab_limit=False)
MODELS = {
    "unigram": dict(),
    "unigram_bytes": dict(normalization_rule_name="nfkc", byte_fallback=True, user_defined_symbols=["<sep>", "the ", "ab"]),
    "bpe": dict(model_type="bpe"),
    "bpe_bytes": dict(model_type="bpe", normalization_rule_name="identity", byte_fallback=True, split_digits=True,
                      remove_extra_whitespaces=False, allow_whitespace_only_pieces=True, character_coverage=0.99),
    "bpe_folded": dict(model_type="bpe", normalization_rule_name="nmt_nfkc_cf", user_defined_symbols=["<sep>", "ing"]),
    "bpe_across": dict(model_type="bpe", split_by_whitespace=False, vocab_size=8000, input_sentence_size=20_000),
    "char": dict(model_type="char", normalization_rule_name="nfkc_cf", vocab_size=4000),
    "word": dict(model_type="word", normalization_rule_name="nmt_nfkc_cf"),
}


def messages(folders):
    for folder in folders:
        for path in sorted(pathlib.Path(folder).rglob("*.mo")):
            try:
                with open(path, "rb") as file:
                    catalogue = gettext.GNUTranslations(file)._catalog
            except (OSError, UnicodeDecodeError, ValueError, IndexError, SyntaxError):
                continue
            for message in catalogue.values():
                yield message.replace("\n", " ").replace("\r", " ")


def odd_lines(rng):
    assigned = [chr(c) for c in range(0x110000) if unicodedata.category(chr(c)) not in ("Cn", "Cs", "Co") and c not in (10, 13)]
    blocks = [assigned[i:i + 120] for i in range(0, len(assigned), 60)]
    marks = [c for c in assigned if unicodedata.combining(c)]
    spaces = [" ", "  ", "\t", "\u00a0", "\u2003", "\u3000", "\u200b", "\ufeff", "\u2581", "\u00ad"]
    emoji = [c for c in assigned if 0x1F000 <= ord(c) < 0x1FB00] + ["\u200d", "\ufe0f"]
    anything = lambda: chr(rng.choice([rng.randrange(1, 0xD800), rng.randrange(0xE000, 0x110000)]))
    for i in range(ODD_LINES):
        block = blocks[i % len(blocks)]
        yield "".join(rng.choice([
            lambda: "".join(rng.choice(block) for _ in range(rng.randint(1, 9))),
            lambda: rng.choice(spaces),
            lambda: rng.choice("aeiounrsAEIO\u0430\u0915\u1100\uac00") + "".join(rng.choices(marks, k=rng.randint(1, 3))),
            lambda: "".join(rng.choices(emoji, k=rng.randint(1, 3))),
            lambda: anything().replace("\n", "").replace("\r", ""),
            lambda: rng.choice(["<sep>", "<s>", "</s>", "<unk>", "<0x41>", "ing", "the ", "..."]),
        ])() for _ in range(rng.randint(1, 30)))


def main():
    assert sentencepiece.__version__ == "0.2.1"
    out, *folders = sys.argv[1:]
    os.makedirs(out, exist_ok=True)
    corpus = os.path.join(out, "scripts.txt")
    rng = random.Random(0)
    lines = sorted({message for message in messages(folders) if message})
    rng.shuffle(lines)
    size = 0
    with open(corpus, "w", encoding="utf-8", newline="\n") as file:
        for line in lines:
            size += file.write(line + "\n")
            if size > MAX_BYTES:
                break
    for name, options in MODELS.items():
        sentencepiece.SentencePieceTrainer.train(
            input=corpus, model_prefix=os.path.join(out, name), **{**COMMON, **options})
    with open(corpus, "a", encoding="utf-8", newline="\n") as file:
        file.writelines(line + "\n" for line in odd_lines(rng))


if __name__ == "__main__":
    main()
