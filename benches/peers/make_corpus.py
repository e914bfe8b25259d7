"""Makes a text of tens of megabytes from the prose on this machine, and trains a SentencePiece model on it.

Prose is what documentation files, Python docstrings and Rust doc comments under the given folders say: paragraphs
of 120 characters and more, mostly letters, each once, one a line. Needs sentencepiece 0.2.1.

Usage: python make_corpus.py OUT_DIR FOLDER...
"""

import os
import pathlib
import re
import sys

MAX_BYTES = 60_000_000
PIECES = 32_000


def paragraphs(path, text):
    if path.suffix == ".py":
        found = re.findall(r'"""(.*?)"""', text, re.S)
    elif path.suffix == ".rs":
        found = re.findall(r"(?:^\s*//[/!].*\n)+", text, re.M)
        found = [re.sub(r"\s*//[/!]", " ", paragraph) for paragraph in found]
    else:
        found = re.split(r"\n\s*\n", text)
    return (re.sub(r"\s+", " ", paragraph).strip() for paragraph in found)


def is_prose(paragraph):
    return len(paragraph) >= 120 and sum(c.isalpha() or c == " " for c in paragraph) >= 0.8 * len(paragraph)


def files(folders):
    for folder in folders:
        for directory, subdirectories, names in os.walk(folder):
            subdirectories.sort()
            for name in sorted(names):
                path = pathlib.Path(directory, name)
                if path.suffix in {".md", ".rst", ".txt", ".py", ".rs", ".pod"}:
                    yield path


def write_corpus(corpus, folders):
    seen, size = set(), 0
    with open(corpus, "w", encoding="utf-8", newline="\n") as out:
        for path in files(folders):
            try:
                text = path.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError):
                continue
            for paragraph in paragraphs(path, text):
                if is_prose(paragraph) and paragraph not in seen:
                    seen.add(paragraph)
                    size += out.write(paragraph + "\n")
                    if size > MAX_BYTES:
                        return


def main():
    out, *folders = sys.argv[1:]
    corpus = os.path.join(out, "corpus.txt")
    os.makedirs(out, exist_ok=True)
    write_corpus(corpus, folders)
    import sentencepiece

    sentencepiece.SentencePieceTrainer.train(
        input=corpus, model_prefix=os.path.join(out, "sentencepiece"), vocab_size=PIECES, pad_id=0, eos_id=1,
        unk_id=2, bos_id=-1, input_sentence_size=60_000, shuffle_input_sentence=True, max_sentence_length=20_000,
        num_threads=2, minloglevel=2)


if __name__ == "__main__":
    main()
