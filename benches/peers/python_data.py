"""Compares the batches that a loop in Python gets: from Gimlet's package, from SeqIO, and those of `gimlet bench data`.

Span corruption of one text in rows of 512 and 114 tokens, batches of 128, as in `pipeline.py`. Each round starts every
reader afresh, on two cores. Rates are by the clock and, for busy machines, by processor time, that of SeqIO without its start.

Usage: PYTHONPATH=python python python_data.py --corpus=TEXT --model=SPM --peer_python=PYTHON --t5=DIR
(`make_corpus.py` makes the text and the model; the other arguments are those of `compare_pipeline.py`)
"""

import argparse
import json
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

BATCH_SIZE, WARM_UP = 128, 8
LENGTHS = {"inputs": 512, "targets": 114}
TASK = """
seqio.SentencePieceVocabulary.sentencepiece_model_file = "{model}"
seqio.SentencePieceVocabulary.extra_ids = 100
seqio.Feature.vocabulary = @seqio.SentencePieceVocabulary()
seqio.TextLineDataSource.split_to_filepattern = {{"train": "{corpus}"}}
seqio.preprocessors.rekey.key_map = {{"inputs": None, "targets": "text"}}
bench/seqio.Task:
  source = @seqio.TextLineDataSource()
  preprocessors = [
    @seqio.preprocessors.rekey(),
    @seqio.preprocessors.tokenize(),
    @t5.data.preprocessors.span_corruption(),
    @seqio.preprocessors.append_eos_after_trim(),
  ]
  output_features = {{"inputs": @seqio.Feature(), "targets": @seqio.Feature()}}
"""
RUN = """
include "t5x/examples/t5/t5_1_1/small.gin"
include "t5x/configs/runs/pretrain.gin"
include "task.gin"
MIXTURE_OR_TASK_NAME = "bench"
TASK_FEATURE_LENGTHS = {lengths}
TRAIN_STEPS = 1
MODEL_DIR = "none"
DROPOUT_RATE = 0.0
BATCH_SIZE = {batch_size}
"""


def by_the_package(folder, batches):
    import gimlet

    data = gimlet.get_dataset("bench", "train", LENGTHS, batch_size=BATCH_SIZE, seed=0, gin_file=folder / "task.gin")
    rows = iter(data)
    for _ in range(WARM_UP):
        next(rows)
    start = time.perf_counter()
    for _ in range(batches):
        next(rows)
    seconds = time.perf_counter() - start
    rows.close()
    return batches * BATCH_SIZE / seconds


def by_the_program(folder, batches):
    import gimlet

    words = [gimlet.program(), "bench", "data", "--json", "--gin_file=run.gin", f"--steps={batches}", f"--warmup={WARM_UP}"]
    done = subprocess.run(words, cwd=folder, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)["rows_per_second"]


def by_seqio(args):
    import pipeline

    pipeline.corrupt_spans(args.corpus, args.model, pipeline.t5_preprocessors(args.t5), False, args.batches, threads=2)


def cpu_seconds():
    """Of this process and of those that it has started and that have ended."""
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in both)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--t5", required=True)
    parser.add_argument("--peer_python")
    parser.add_argument("--batches", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seqio", action="store_true", help="read with SeqIO; the program calls itself so")
    args = parser.parse_args()
    if args.seqio:
        return by_seqio(args)
    again = [args.peer_python, *sys.argv, "--seqio"]
    rates = {kind: {"package": [], "program": [], "seqio": []} for kind in ("seconds", "cpu_seconds")}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "task.gin").write_text(TASK.format(model=args.model, corpus=args.corpus))
        (folder / "run.gin").write_text(RUN.format(lengths=LENGTHS, batch_size=BATCH_SIZE))
        for _ in range(args.rounds):
            for name, read in {"package": by_the_package, "program": by_the_program}.items():
                before = cpu_seconds()
                rates["seconds"][name].append(read(folder, args.batches))
                used = cpu_seconds() - before
                rates["cpu_seconds"][name].append((args.batches + WARM_UP) * BATCH_SIZE / used)
            done = subprocess.run(again, check=True, stdout=subprocess.PIPE, text=True)
            record = json.loads(done.stdout.splitlines()[-1])
            for kind, found in rates.items():
                found["seqio"].append(record["examples"] / record[kind])
    for kind, found in rates.items():
        for other in ("program", "seqio"):
            ratios = [ours / theirs for ours, theirs in zip(found["package"], found[other])]
            print(f"package / {other} by {kind}: {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
        print(", ".join(f"{name} {statistics.median(values):,.0f} rows/s" for name, values in found.items()))


if __name__ == "__main__":
    main()
