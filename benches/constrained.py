"""Compares the speed of `gimlet generate` within a set of answers with that without one.

Each round runs every kind of set in turn, greedily and with four beams, on the same texts. All answers have as many tokens as
there is room for: words of one piece each make a choice, and the expression has no end before.

Usage: python constrained.py --gimlet=BINARY --checkpoint=DIR --model=SPM --corpus=TEXT
(the checkpoint, of one step, reads the SentencePiece model; `peers/make_corpus.py` makes that and the text)
"""

import argparse
import os
import pathlib
import random
import re
import statistics
import subprocess
import tempfile
import time

TEXTS, WORDS = 32, 50
ENVIRONMENT = {"OMP_WAIT_POLICY": "PASSIVE", "OMP_NUM_THREADS": "2"}


def speed(args, folder, flags):
    """Tokens a second, the number of tokens, and the seconds of the whole process."""
    words = [args.gimlet, "generate", f"--checkpoint={args.checkpoint}", "-v", f"--file={folder / 'texts.txt'}",
             "--batch_size=8", f"--max_tokens={args.max_tokens}", *flags]
    start = time.perf_counter()
    done = subprocess.run(words, env={**os.environ, **ENVIRONMENT}, capture_output=True, text=True)
    whole = time.perf_counter() - start
    assert done.returncode == 0, done.stderr
    tokens, seconds = re.search(r"(\d+) tokens in ([0-9.]+) s", done.stderr).groups()
    return int(tokens) / float(seconds), int(tokens), whole


def write_choices(path, words, count, length):
    chosen = random.Random(0)
    lines = {" ".join(chosen.choices(words, k=length)) for _ in range(count)}
    path.write_text("\n".join(sorted(lines)) + "\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gimlet", required=True)
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--model", required=True, help="of SentencePiece, with its list of pieces beside it")
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--max_tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    pieces = pathlib.Path(args.model).with_suffix(".vocab").read_text().splitlines()
    words = [match[1] for piece in pieces if (match := re.match(r"▁([a-z]{3,})\t", piece))]
    found = {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        with open(args.corpus, encoding="utf-8") as corpus:
            texts = [" ".join(line.split()[:WORDS]) for line, _ in zip(corpus, range(TEXTS))]
        (folder / "texts.txt").write_text("\n".join(texts) + "\n")
        sets = {"free": [], "pattern": [f"--pattern=[a-z ]{{{args.max_tokens},}}"]}
        for count in (1_000, 100_000):
            path = folder / f"{count}.txt"
            # The end is a token too.
            write_choices(path, words, count, args.max_tokens - 4)
            sets[f"{count:,} choices"] = [f"--choices={path}"]
        decodings = {"greedy": ["--temperature=0"], "beam 4": ["--beam=4"]}
        for _ in range(args.rounds):
            for decoding, flags in decodings.items():
                for kind, set_flags in sets.items():
                    found.setdefault((decoding, kind), []).append(speed(args, folder, [*flags, *set_flags]))
    for (decoding, kind), runs in found.items():
        rates, tokens, seconds = zip(*runs)
        ratios = [rate / free[0] for rate, free in zip(rates, found[decoding, "free"])]
        print(f"{decoding:<8}{kind:<16}{statistics.median(rates):8.1f} tokens/s, {statistics.median(ratios):.3f} of free "
              f"({min(ratios):.3f} to {max(ratios):.3f}); {tokens[0]} tokens, whole process {statistics.median(seconds):.1f} s")


if __name__ == "__main__":
    main()
