"""How long `gimlet` takes before anything is trained; prints medians.

Answers: `--help`, a gin syntax error, a dry run of T5 1.1 small, each one process from start to end.

Overhead: `gimlet train` of T5 1.1 small on a text file up to where the first step would begin, first batches
included, beside the bench `decode` without rounds, which loads libtorch and makes the parameters and nothing
else. The difference is configuration, vocabulary, data and logs. With `--peer_python`, Hugging Face's model too
(`peers/train_step.py`). Processes run in alternating order.

Usage: python startup.py --gimlet=BINARY --model=SPM [--corpus=TEXT --decode=BINARY [--peer_python=PYTHON]]
(`peers/make_corpus.py` makes the text and the model; `gimlet-torch` lies beside BINARY)
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

ENVIRONMENT = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0", "OMP_NUM_THREADS": "2"}
ROWS, INPUTS, TARGETS = 8, 128, 32

TASK = """
start_up/seqio.SentencePieceVocabulary:
  sentencepiece_model_file = '{model}'
  extra_ids = 100
start_up/seqio.TextLineDataSource.split_to_filepattern = {{'train': '{corpus}'}}
start_up/seqio.Feature.vocabulary = @seqio.SentencePieceVocabulary()
start_up/seqio.preprocessors.rekey.key_map = {{'inputs': None, 'targets': 'text'}}
start_up/seqio.Task:
  source = @seqio.TextLineDataSource()
  preprocessors = [
    @seqio.preprocessors.rekey(),
    @seqio.preprocessors.tokenize(),
    @t5.data.preprocessors.span_corruption(),
    @seqio.preprocessors.append_eos_after_trim(),
  ]
  output_features = {{'inputs': @seqio.Feature(), 'targets': @seqio.Feature()}}
"""

RUN = """
include 't5x/examples/t5/t5_1_1/small.gin'
include 't5x/configs/runs/pretrain.gin'
import start_up
seqio.SentencePieceVocabulary:
  sentencepiece_model_file = '{model}'
  extra_ids = 100
VOCABULARY = @seqio.SentencePieceVocabulary()
MIXTURE_OR_TASK_NAME = 'start_up'
TASK_FEATURE_LENGTHS = {{'inputs': {inputs}, 'targets': {targets}}}
TRAIN_STEPS = 0
DROPOUT_RATE = 0.0
BATCH_SIZE = {rows}
USE_CACHED_TASKS = False
train/utils.DatasetConfig.pack = False
train.eval_period = 0
utils.CheckpointConfig.save = None
MODEL_DIR = '{folder}/model'
"""


def write(folder, args):
    (folder / "start_up.gin").write_text(TASK.format(corpus=args.corpus, model=args.model))
    run = RUN.format(model=args.model, folder=folder, rows=ROWS, inputs=INPUTS, targets=TARGETS)
    (folder / "run.gin").write_text(run)
    (folder / "broken.gin").write_text(run.replace("BATCH_SIZE =", "BATCH_SIZE = ="))


def seconds(command, status):
    start = time.perf_counter()
    done = subprocess.run(command, env={**os.environ, **ENVIRONMENT}, capture_output=True, text=True)
    taken = time.perf_counter() - start
    assert done.returncode == status, f"{command}: status {done.returncode}\n{done.stdout}{done.stderr}"
    return taken


def measure(commands, rounds):
    times = {name: [] for name in commands}
    for index in range(rounds):
        names = list(commands) if index % 2 == 0 else list(commands)[::-1]
        for name in names:
            times[name].append(seconds(*commands[name]))
    return times


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gimlet", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--corpus")
    parser.add_argument("--decode", help="the binary that `cargo bench --bench decode --no-run` names")
    parser.add_argument("--peer_python")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--train_rounds", type=int, default=7)
    args = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        write(folder, args)
        train = [args.gimlet, "train", f"--gin_search_paths={folder}"]
        run = [*train, f"--gin_file={folder}/run.gin"]
        answers = {
            "an empty process": (["true"], 0),
            "gimlet --help": ([args.gimlet, "--help"], 0),
            "a gin syntax error": ([*train, f"--gin_file={folder}/broken.gin"], 2),
            "a dry run of T5 1.1 small": ([*run, "--dry_run"], 0),
        }
        for name, times in measure(answers, args.rounds).items():
            print(f"{name}: median {statistics.median(times) * 1e3:.1f} ms, best {min(times) * 1e3:.1f} ms")
        if not args.decode:
            return
        starts = {
            "gimlet train, no step": (run, 0),
            "libtorch and parameters": ([args.decode, "--rounds=0"], 0),
        }
        if args.peer_python:
            script = str(pathlib.Path(__file__).parent / "peers/train_step.py")
            starts["Hugging Face's model"] = ([args.peer_python, script, "--steps=0"], 0)
        found = measure(starts, args.train_rounds)
        for name, times in found.items():
            print(f"{name}: median {statistics.median(times):.2f} s, best {min(times):.2f} s")
        ours, bare = found["gimlet train, no step"], found["libtorch and parameters"]
        overhead = [our - their for our, their in zip(ours, bare)]
        print(f"overhead of gimlet train: median {statistics.median(overhead):.2f} s, best {min(ours) - min(bare):.2f} s")


if __name__ == "__main__":
    main()
