"""Pretrains a BERT of two layers by transformers and by Gimlet, on the same batches from the same first weights, and compares losses.

The examples are made of the docstrings of Python's standard library: words of a list of the most frequent ones, two texts a row, of
which half are swapped, and 15% of the words masked as BERT masks. Both read them in one order, in float32 without dropout, with
torch's AdamW, a linear schedule and a limit of gradients.

Usage: python bert_curve.py --gimlet BINARY [--steps 300] [--svg FILE]
Needs torch 2.11.0 and transformers 5.24.0.
"""

import argparse
import collections
import json
import pathlib
import random
import re
import sys
import tempfile

import torch
from curves import compare, drawn, measured, texts
from transformers import BertConfig, BertForPreTraining, get_scheduler

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PAD, UNKNOWN, CLS, SEP, MASK = range(5)
VOCAB_SIZE, LENGTH, ROWS = 2048, 128, 8
RATE, WARMUP, DECAY, LIMIT = 1e-3, 30, 0.01, 1.0

GIN = """
from __gin__ import dynamic_registration
import __main__ as train_script
import bert
import gimlet
import seqio
from gimlet import schedules
from t5x import trainer
from t5x import utils
from torch import optim

include "gimlet/bert/model.gin"
include "t5x/configs/runs/pretrain.gin"

MIXTURE_OR_TASK_NAME = "examples"
BATCH_SIZE = {rows}
TRAIN_STEPS = {steps}
RANDOM_SEED = 0
USE_CACHED_TASKS = False
SHUFFLE_TRAIN_EXAMPLES = False
TASK_FEATURE_LENGTHS = {lengths}
VOCABULARY = @seqio.PassThroughVocabulary()
seqio.PassThroughVocabulary.size = {vocab_size}
bert.BertConfig:
  vocab_size = {vocab_size}
  hidden_size = 128
  num_hidden_layers = 2
  num_attention_heads = 2
  intermediate_size = 512
  max_position_embeddings = {length}
  hidden_dropout_prob = 0.0
  attention_probs_dropout_prob = 0.0
OPTIMIZER = @gimlet.optimizers.Clipped()
gimlet.optimizers.Clipped:
  optimizer = @optim.AdamW()
  norm = {limit}
optim.AdamW:
  lr = "trainer"
  weight_decay = {decay}
trainer.Trainer.learning_rate_fn = @schedules.get_scheduler()
schedules.get_scheduler:
  name = "linear"
  lr = {rate}
  num_warmup_steps = {warmup}
  num_training_steps = {steps}
examples/seqio.Task:
  source = @seqio.JsonLinesDataSource()
  output_features = {features}
seqio.JsonLinesDataSource.split_to_filepattern = {{"train": "examples.jsonl"}}
seqio.Feature:
  vocabulary = %VOCABULARY
  add_eos = False
train/utils.DatasetConfig.pack = False
train_script.train:
  train_eval_dataset_cfg = None
  eval_period = None
  counts_steps_from_zero = True
  stats_period = 1
  writes_trainer_log = True
utils.SaveCheckpointConfig.period = None
utils.RestoreCheckpointConfig:
  path = "model"
  mode = "specific"
MODEL_DIR = "run"
"""


def examples(count):
    """The features of a BERT, whose labels are 0 where nothing is masked."""
    documents = list(texts())
    frequent = collections.Counter(word for words in documents for word in words).most_common(VOCAB_SIZE - len(SPECIAL))
    ids = {word: number for number, (word, _) in enumerate(frequent, len(SPECIAL))}
    draw = random.Random(0)
    for _ in range(count):
        words = [ids.get(word, UNKNOWN) for word in draw.choice(documents)][: LENGTH - 3]
        cut = draw.randrange(10, len(words) - 10)
        parts, swapped = [words[:cut], words[cut:]], draw.random() < 0.5
        first, second = parts[::-1] if swapped else parts
        tokens = [CLS, *first, SEP, *second, SEP]
        types = [0] * (len(first) + 2) + [1] * (len(second) + 1)
        inputs, weights = list(tokens), [0] * len(tokens)
        for place, token in enumerate(tokens):
            if token in (CLS, SEP) or draw.random() >= 0.15:
                continue
            weights[place] = 1
            fate = draw.random()
            if fate < 0.8:
                inputs[place] = MASK
            elif fate < 0.9:
                inputs[place] = draw.randrange(len(SPECIAL), VOCAB_SIZE)
        yield {"encoder_input_tokens": inputs, "encoder_token_types": types, "encoder_target_tokens": tokens,
               "encoder_loss_weights": weights, "next_sentence_label": [int(swapped)]}


def first_weights(folder):
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=VOCAB_SIZE, hidden_size=128, num_hidden_layers=2, num_attention_heads=2, intermediate_size=512,
        max_position_embeddings=LENGTH, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    BertForPreTraining(config).save_pretrained(folder / "model")


def by_transformers(folder, steps):
    """The losses, which are written to `theirs.json`."""
    torch.set_num_threads(2)
    rows = [json.loads(line) for line in (folder / "examples.jsonl").read_text().splitlines()]
    model = BertForPreTraining.from_pretrained(folder / "model").train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=DECAY)
    schedule = get_scheduler("linear", optimizer, num_warmup_steps=WARMUP, num_training_steps=steps)
    table = lambda batch, name, fill=0: torch.tensor(
        [row[name] + [fill] * (LENGTH - len(row[name])) for row in batch])
    losses = []
    for step in range(steps + 1):
        batch = rows[step * ROWS:(step + 1) * ROWS]
        tokens, weights = table(batch, "encoder_target_tokens"), table(batch, "encoder_loss_weights")
        inputs = table(batch, "encoder_input_tokens")
        loss = model(
            input_ids=inputs, attention_mask=inputs.ne(0).long(), token_type_ids=table(batch, "encoder_token_types"),
            labels=tokens.masked_fill(weights.eq(0), -100),
            next_sentence_label=torch.tensor([row["next_sentence_label"][0] for row in batch])).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), LIMIT)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    (folder / "theirs.json").write_text(json.dumps(losses))


def configuration(steps):
    features = ["encoder_input_tokens", "encoder_token_types", "encoder_target_tokens", "encoder_loss_weights"]
    lengths = {**{feature: LENGTH for feature in features}, "next_sentence_label": 1}
    listed = "{" + ", ".join(f'"{feature}": @seqio.Feature()' for feature in lengths) + "}"
    return GIN.format(rows=ROWS, steps=steps, lengths=lengths, features=listed, vocab_size=VOCAB_SIZE, length=LENGTH, limit=LIMIT,
                      decay=DECAY, rate=RATE, warmup=WARMUP)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gimlet")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--svg", type=pathlib.Path)
    parser.add_argument("--folder", type=pathlib.Path, help="train transformers' model in it; the program calls itself so")
    args = parser.parse_args()
    if args.folder:
        return by_transformers(args.folder, args.steps)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        with open(folder / "examples.jsonl", "w") as lines:
            lines.writelines(json.dumps(row) + "\n" for row in examples(ROWS * (args.steps + 1)))
        first_weights(folder)
        (folder / "run.gin").write_text(configuration(args.steps))
        again = [sys.executable, __file__, f"--steps={args.steps}", f"--folder={folder}"]
        costs = {"transformers": measured(again, folder),
                 "Gimlet": measured([args.gimlet, "train", "--gin_file=run.gin", "--gin_search_paths=."], folder)}
        theirs = json.loads((folder / "theirs.json").read_text())
        log = next((folder / "run").glob("*rank_0.log")).read_text()
        ours = [float(loss) for loss in re.findall(r"step: \d+/\d+ loss: ([0-9.]+)$", log, re.M)]
    compare(theirs, ours, costs, 50)
    if args.svg:
        args.svg.write_text(drawn({"transformers": theirs[::2], "Gimlet": ours[::2]}, args.steps))


if __name__ == "__main__":
    main()
