"""Runs `gimlet infer` and a loop over `generate` (`infer.py`) in turn, and prints the ratio of their times.

Both read the same folder of weights and the same examples, in the same batches, and write their predictions; whole
processes are measured, from start to end. Greedy float32 predictions have to be equal. Each round starts both
afresh, in alternating order. On a shared machine the CPU seconds say more than the others.

Usage: python compare_infer.py --peer_python PYTHON --gimlet BINARY [--dtype bfloat16] [--beams 4] [--rounds 3]
"""

import argparse
import json
import os
import pathlib
import resource
import shutil
import statistics
import subprocess
import tempfile
import time

GIN = """
from __gin__ import dynamic_registration
import __main__ as infer_script
import seqio
from t5x import decoding
from t5x import models
from t5x import utils
from t5x.examples.t5 import network

include "t5x/examples/t5/t5_1_1/{size}.gin"
include "t5x/configs/runs/infer.gin"

MIXTURE_OR_TASK_NAME = "ids"
TASK_FEATURE_LENGTHS = {{"inputs": {inputs_length}, "targets": {tokens}}}
CHECKPOINT_PATH = "{folder}/model"
INFER_OUTPUT_DIR = "{folder}/inferred"
DROPOUT_RATE = 0.0
VOCABULARY = @seqio.PassThroughVocabulary()
seqio.PassThroughVocabulary.size = 32100
network.T5Config.dtype = "{dtype}"
models.EncoderDecoderModel.decode_fn = {decode_fn}
models.EncoderDecoderModel.predict_batch_with_aux.num_decodes = {beams}
decoding.temperature_sample.temperature = 0.0
utils.DatasetConfig.batch_size = {batch_size}
utils.RestoreCheckpointConfig.dtype = "{dtype}"

ids/seqio.Task:
  source = @seqio.JsonLinesDataSource()
  output_features = {{"inputs": @seqio.Feature(), "targets": @seqio.Feature()}}
ids/seqio.JsonLinesDataSource.split_to_filepattern = {{"test": "{folder}/examples.jsonl"}}
seqio.Feature:
  vocabulary = @seqio.PassThroughVocabulary()
  add_eos = False
"""


# The work of both sides, with its defaults.
WORK = {
    "dtype": "float32", "size": "small", "examples": 64, "batch_size": 8, "inputs_length": 512, "tokens": 64,
    "beams": 1, "threads": 2,
}


def add_work(parser):
    for name, default in WORK.items():
        parser.add_argument(f"--{name}", type=type(default), default=default)


def measured(command, environment):
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, env=environment, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - start, cpu


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--peer_python", required=True)
    parser.add_argument("--gimlet", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    add_work(parser)
    args = parser.parse_args()

    environment = {**os.environ, "OMP_NUM_THREADS": str(args.threads), "OMP_WAIT_POLICY": "PASSIVE"}
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        decode_fn = "@decoding.beam_search" if args.beams > 1 else "@decoding.temperature_sample"
        gin = GIN.format(folder=folder, decode_fn=decode_fn, **vars(args))
        (folder / "infer.gin").write_text(gin)
        script = str(pathlib.Path(__file__).with_name("infer.py"))
        peer = [args.peer_python, script, f"--folder={folder}", *(f"--{name}={getattr(args, name)}" for name in WORK)]
        subprocess.run([*peer, "--save"], check=True)
        commands = {"gimlet": [args.gimlet, "infer", f"--gin_file={folder}/infer.gin"], "transformers": peer}
        seconds = {name: [] for name in commands}
        cpu = {name: [] for name in commands}
        for index in range(args.rounds):
            for name in list(commands) if index % 2 == 0 else list(commands)[::-1]:
                shutil.rmtree(folder / "inferred", ignore_errors=True)
                both = measured(commands[name], environment)
                seconds[name].append(both[0])
                cpu[name].append(both[1])
                if name == "gimlet":
                    written = folder / "inferred/ids-predict.jsonl-00000-of-00001"
                    shutil.copy(written, folder / "gimlet.jsonl")
        found = {name: [json.loads(line)["prediction"] for line in open(folder / f"{name}.jsonl")] for name in commands}
    for name in commands:
        print(f"{name:<14}{args.dtype}: {args.examples / statistics.median(seconds[name]):.2f} examples/s, "
              f"median {statistics.median(seconds[name]):.1f} s, cpu {statistics.median(cpu[name]):.1f} s")
    pairs = [(a, b) for rows in zip(*found.values()) for a, b in zip(*rows)]
    share = sum(a == b for a, b in pairs) / len(pairs)
    ratio = lambda values: statistics.median(values["transformers"]) / statistics.median(values["gimlet"])
    print(f"speed of gimlet over transformers: {ratio(seconds):.2f}, by cpu time {ratio(cpu):.2f}; "
          f"equal tokens: {share:.1%}")
    assert share == 1 or args.dtype != "float32" or args.beams > 1, "greedy float32 predictions differ"


if __name__ == "__main__":
    main()
