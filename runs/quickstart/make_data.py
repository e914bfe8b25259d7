#!/usr/bin/env python3
"""Makes the files of data/ again; see data/README.md for what they are and whose.

    python3 make_data.py path/to/botchan.txt

needs sentencepiece==0.2.1, and sentencepiece 0.1.99's source archive on PyPI for the book
(test/botchan.txt, SHA-256 below). Everything is deterministic.
"""

import datetime
import hashlib
import io
import json
import random
import sys
from pathlib import Path

import sentencepiece

DATA = Path(__file__).resolve().parent / "data"
BOOK_SHA256 = "464bd5300c24fce16fcc4555d4231a57632caae4d0090ad6aa92854a3b227ba7"
VOCAB_SIZE = 2000
NUM_TRAIN_DATES = 3000
NUM_VALIDATION_DATES = 200


def main():
    book = Path(sys.argv[1]).read_bytes()
    assert hashlib.sha256(book).hexdigest() == BOOK_SHA256, "another edition of the book"
    train, validation = split(paragraphs(book.decode("utf-8-sig").splitlines()))
    write_lines(DATA / "botchan.train.txt", train)
    write_lines(DATA / "botchan.validation.txt", validation)
    train_tokenizer(DATA / "botchan.train.txt")
    dates_train, dates_validation = dates()
    write_lines(DATA / "dates.train.jsonl", map(json.dumps, dates_train))
    write_lines(DATA / "dates.validation.jsonl", map(json.dumps, dates_validation))


def paragraphs(lines):
    """The book without the archive's head and foot, one paragraph a line."""
    start = next(i for i, line in enumerate(lines) if line.startswith("A NOTE BY THE"))
    end = next(i for i, line in enumerate(lines) if line.startswith("End of Project"))
    paragraph = []
    for line in lines[start:end]:
        paragraph.append(line.strip())
        # The archive dropped empty lines: a short line that ends a sentence ends a paragraph.
        if len(line) < 60 and line.rstrip().endswith((".", "!", "?", '"', ":")):
            yield " ".join(paragraph)
            paragraph = []
    if paragraph:
        yield " ".join(paragraph)


def split(texts):
    """Every twentieth paragraph is held out."""
    texts = [text for text in texts if text]
    validation = texts[19::20]
    train = [text for i, text in enumerate(texts) if i % 20 != 19]
    return train, validation


def train_tokenizer(corpus):
    """T5's special ids. Digits stand alone, so that numbers never seen can be written."""
    model = io.BytesIO()
    # Read from memory and written there, since a model keeps the paths of its files.
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus.read_text(encoding="utf-8").splitlines()),
        model_writer=model,
        vocab_size=VOCAB_SIZE,
        model_type="unigram",
        pad_id=0,
        eos_id=1,
        unk_id=2,
        bos_id=-1,
        max_sentence_length=10000,
        split_digits=True,
        required_chars="0123456789-,",
        num_threads=1,
        minloglevel=1,
    )
    (DATA / "botchan.model").write_bytes(model.getvalue())


def dates():
    """Days of a century, each written as people write them; no day is in both splits."""
    generator = random.Random(0)
    first = datetime.date(1950, 1, 1).toordinal()
    days = generator.sample(range(first, first + 36525), NUM_TRAIN_DATES + NUM_VALIDATION_DATES)
    examples = [date_example(datetime.date.fromordinal(day), generator) for day in days]
    return examples[:NUM_TRAIN_DATES], examples[NUM_TRAIN_DATES:]


def date_example(day, generator):
    style = generator.choice(["{d} {month} {y}", "{month} {d}, {y}", "the {d} of {month} {y}"])
    text = style.format(d=day.day, month=day.strftime("%B"), y=day.year)
    return {"inputs": text, "targets": day.isoformat()}


def write_lines(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    main()
