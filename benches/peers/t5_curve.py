"""Pretrains a T5 1.1 in miniature by transformers with nanoT5's optimizer and schedule, and by Gimlet with `runs/nanot5/pretrain.gin`, on the
same batches from the same first weights, and compares losses, time and memory.

The examples are spans of docstrings of torch and transformers, corrupted as T5 corrupts them: words of a list of the most frequent
ones, 15% of them in spans of three words. Both read them in one order, in float32 without dropout.

Usage: python t5_curve.py --gimlet BINARY --nanot5 CHECKOUT [--steps 2000] [--svg FILE]
Needs torch 2.11.0, transformers 5.24.0 and a checkout of github.com/PiotrNawrot/nanoT5.
"""

import argparse
import ast
import collections
import json
import math
import pathlib
import random
import sys
import tempfile
from typing import Iterable, Tuple

import torch
import transformers
from curves import compare, drawn, measured, texts
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR
from transformers import T5Config, T5ForConditionalGeneration

PAD, EOS, UNKNOWN = range(3)
SENTINELS = 100
VOCAB_SIZE, ROWS = 4096, 16
# Of a text, of its noise and its spans; so inputs and targets have the lengths below without padding.
TOKENS, NOISE, SPANS = 141, 21, 7
INPUTS, TARGETS = TOKENS - NOISE + SPANS + 1, NOISE + SPANS + 1
RATE, FINAL_RATE, LIMIT = 2e-2, 1e-5, 1.0
SIZE = dict(d_model=128, d_kv=32, num_heads=4, d_ff=256, num_layers=2, num_decoder_layers=2)

GIN = """
include "{root}/runs/nanot5/pretrain.gin"

MIXTURE_OR_TASK_NAME = "examples"
BATCH_SIZE = {rows}
TRAIN_STEPS = {steps}
WARMUP_STEPS = {warmup}
SHUFFLE_TRAIN_EXAMPLES = False
TASK_FEATURE_LENGTHS = {{"inputs": {inputs}, "targets": {targets}}}
VOCABULARY = @seqio.PassThroughVocabulary()
seqio.PassThroughVocabulary.size = {vocab_size}
network.T5Config:
  vocab_size = {vocab_size}
  emb_dim = {d_model}
  head_dim = {d_kv}
  num_heads = {num_heads}
  mlp_dim = {d_ff}
  num_encoder_layers = {num_layers}
  num_decoder_layers = {num_decoder_layers}
  dtype = "float32"
examples/seqio.Task:
  source = @seqio.JsonLinesDataSource()
  output_features = {{"inputs": @seqio.Feature(), "targets": @seqio.Feature()}}
seqio.JsonLinesDataSource.split_to_filepattern = {{"train": "examples.jsonl"}}
seqio.Feature:
  vocabulary = %VOCABULARY
  add_eos = False
train/utils.DatasetConfig.pack = False
train.train:
  train_eval_dataset_cfg = None
  eval_period = None
  stats_period = 1
utils.RestoreCheckpointConfig:
  path = "model"
  mode = "specific"
MODEL_DIR = "run"
"""


def warmup(steps):
    return steps * 10_000 // 65_536


def segments(draw, count, parts):
    """Lengths of at least one, whose sum is the count."""
    cuts = sorted(draw.sample(range(1, count), parts - 1))
    return [end - begin for begin, end in zip([0, *cuts], [*cuts, count])]


def examples(count):
    packages = [pathlib.Path(module.__file__).parent for module in (torch, transformers)]
    documents = list(texts(*packages))
    known = VOCAB_SIZE - SENTINELS - UNKNOWN - 1
    frequent = collections.Counter(word for words in documents for word in words).most_common(known)
    ids = {word: number for number, (word, _) in enumerate(frequent, UNKNOWN + 1)}
    text = [token for words in documents for token in [*(ids.get(word, UNKNOWN) for word in words), EOS]]
    print(f"{len(documents):,} docstrings of {len(text):,} words")
    draw = random.Random(0)
    for _ in range(count):
        place = draw.randrange(len(text) - TOKENS)
        inputs, targets = [], []
        for span, (kept, hidden) in enumerate(zip(segments(draw, TOKENS - NOISE, SPANS), segments(draw, NOISE, SPANS))):
            sentinel = VOCAB_SIZE - 1 - span
            inputs += [*text[place:place + kept], sentinel]
            targets += [sentinel, *text[place + kept:place + kept + hidden]]
            place += kept + hidden
        yield {"inputs": [*inputs, EOS], "targets": [*targets, EOS]}


def first_weights(folder):
    torch.manual_seed(0)
    config = T5Config(vocab_size=VOCAB_SIZE, feed_forward_proj="gated-gelu", tie_word_embeddings=False, dropout_rate=0.0,
                      decoder_start_token_id=PAD, **SIZE)
    model = T5ForConditionalGeneration(config)
    # transformers 5 takes the argument for the scale of the logits alone, and shares one matrix of both stacks and the head.
    model.lm_head.weight = torch.nn.Parameter(torch.randn_like(model.shared.weight))
    model.save_pretrained(folder / "model")


def adamw_scale(nanot5):
    """nanoT5's optimizer alone, since its file imports more than torch."""
    path = pathlib.Path(nanot5, "nanoT5/utils/copied_utils.py")
    found = [node for node in ast.parse(path.read_text()).body if getattr(node, "name", None) == "AdamWScale"]
    names = {"Iterable": Iterable, "Optimizer": torch.optim.Optimizer, "Tuple": Tuple, "math": math, "nn": torch.nn, "torch": torch}
    exec(compile(ast.Module(found, []), path, "exec"), names)
    return names["AdamWScale"]


def by_transformers(folder, nanot5, steps):
    """The loop of nanoT5, whose losses are written to `theirs.json`."""
    torch.set_num_threads(2)
    model = T5ForConditionalGeneration.from_pretrained(folder / "model").train()
    assert model.lm_head.weight is not model.shared.weight and model.encoder.embed_tokens.weight is model.shared.weight
    optimizer = adamw_scale(nanot5)(model.parameters(), lr=RATE)
    ramp = LinearLR(optimizer, start_factor=0.5, end_factor=1, total_iters=warmup(steps))
    cosine = CosineAnnealingLR(optimizer, T_max=steps - warmup(steps), eta_min=FINAL_RATE)
    schedule = SequentialLR(optimizer, [ramp, cosine], milestones=[warmup(steps)])
    losses = []
    with open(folder / "examples.jsonl") as lines:
        for _ in range(steps):
            batch = [json.loads(next(lines)) for _ in range(ROWS)]
            inputs, labels = (torch.tensor([row[name] for row in batch]) for name in ("inputs", "targets"))
            loss = model(input_ids=inputs, labels=labels).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), LIMIT)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad(set_to_none=True)
            losses.append(loss.item())
    (folder / "theirs.json").write_text(json.dumps(losses))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gimlet")
    parser.add_argument("--nanot5", required=True)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--svg", type=pathlib.Path)
    parser.add_argument("--folder", type=pathlib.Path, help="train transformers' model in it; the program calls itself so")
    args = parser.parse_args()
    if args.folder:
        return by_transformers(args.folder, args.nanot5, args.steps)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        with open(folder / "examples.jsonl", "w") as lines:
            lines.writelines(json.dumps(row) + "\n" for row in examples(ROWS * args.steps))
        first_weights(folder)
        text = GIN.format(root=pathlib.Path(__file__).resolve().parents[2], rows=ROWS, steps=args.steps, warmup=warmup(args.steps),
                          inputs=INPUTS, targets=TARGETS, vocab_size=VOCAB_SIZE, **SIZE)
        (folder / "run.gin").write_text(text)
        again = [sys.executable, __file__, f"--nanot5={args.nanot5}", f"--steps={args.steps}", f"--folder={folder}"]
        costs = {"transformers": measured(again, folder),
                 "Gimlet": measured([args.gimlet, "train", "--gin_file=run.gin"], folder)}
        theirs = json.loads((folder / "theirs.json").read_text())
        lines = map(json.loads, (folder / "run/train/metrics.jsonl").read_text().splitlines())
        ours = [line["loss"] for line in lines if "loss" in line]
    compare(theirs, ours, costs, 100)
    if args.svg:
        # The first losses are those of transformers' initial weights, 42 and falling fast.
        thinned = {name: losses[8::8] for name, losses in (("transformers", theirs), ("Gimlet", ours))}
        args.svg.write_text(drawn(thinned, args.steps))


if __name__ == "__main__":
    main()
