"""A loop over files of token ids with Hugging Face's `generate`, as a peer of `gimlet infer`.

The model is that of `decode.py`, saved as a folder that both programs read. Each row of a batch is padded to
`--inputs_length`, nothing ends a sequence, and predictions are written as lines of JSON.

`--save FOLDER` writes the model and the examples, and ends there. Run it through `compare_infer.py`.
"""

import argparse
import json
import pathlib

import torch

from compare_infer import add_work
from train_step import build


def save(folder, args):
    torch.manual_seed(0)
    model = build(args.size, "sdpa").eval()
    model.save_pretrained(folder / "model")
    random = torch.Generator().manual_seed(0)
    with open(folder / "examples.jsonl", "w") as file:
        for _ in range(args.examples):
            length = int(torch.randint(args.inputs_length // 2, args.inputs_length + 1, (1,), generator=random))
            ids = torch.randint(2, 32000, (length,), generator=random).tolist()
            file.write(json.dumps({"inputs": ids, "targets": [1]}) + "\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    parser.add_argument("--save", action="store_true")
    add_work(parser)
    args = parser.parse_args()
    if args.save:
        save(args.folder, args)
        return

    from transformers import T5ForConditionalGeneration

    torch.set_num_threads(args.threads)
    assert torch.set_flush_denormal(True)
    dtype = getattr(torch, args.dtype)
    model = T5ForConditionalGeneration.from_pretrained(args.folder / "model", dtype=dtype).eval()
    model.config.use_cache = model.generation_config.use_cache = True
    model.generation_config.eos_token_id = None
    examples = [json.loads(line)["inputs"] for line in open(args.folder / "examples.jsonl")]
    with open(args.folder / "transformers.jsonl", "w") as file:
        for start in range(0, len(examples), args.batch_size):
            rows = examples[start:start + args.batch_size]
            inputs = torch.tensor([row + [0] * (args.inputs_length - len(row)) for row in rows])
            found = model.generate(
                inputs, attention_mask=inputs.ne(0).long(), max_new_tokens=args.tokens, do_sample=False,
                num_beams=args.beams)
            for row in found[:, 1:].tolist():
                file.write(json.dumps({"prediction": row}) + "\n")


if __name__ == "__main__":
    main()
