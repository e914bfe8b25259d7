"""Writes a small T0 with random weights as transformers saves it, and what transformers makes of T0's ranked answers.

Made with transformers 4.36.2, torch 1.13.0 and sentencepiece 0.2.3 (Python 3.11):
    python tests/e2e/t0/make_ranks.py
A prompt has no EOS and an answer has one; the answer with the greatest sum of log-probabilities is the model's.
Embeddings have the 32,128 rows of T5, of which those of the small vocabulary are not 0.
"""

import json
import pathlib
import tarfile
import tempfile

import sentencepiece
import torch
from transformers import T5Config, T5ForConditionalGeneration

HERE = pathlib.Path(__file__).parent
PIECES = HERE.parents[1] / "pipeline/data/reference/sentencepiece.model"


def rows(name):
    return [json.loads(line) for line in (HERE / "datasets/super_glue" / name).read_text().splitlines()]


def ranked():
    """Yields the task, the prompt, the answers and the right answer's index of each example."""
    for row in rows("cb/validation.jsonl"):
        prompt = f"{row['premise']} Does it follow that {row['hypothesis']}?"
        yield "super_glue_cb_does_it_follow_that_score_eval", prompt, ["Yes", "No", "Maybe"], row["label"]
    for row in rows("copa/validation.jsonl"):
        prompt = f"{row['premise']} What was the {row['question']}?"
        answers = [row["choice1"], row["choice2"]]
        yield "super_glue_copa_what_was_it_score_eval", prompt, answers, row["label"]


def make_model(num_pieces):
    config = T5Config(
        vocab_size=32128, d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2, feed_forward_proj="gated-gelu",
        tie_word_embeddings=False, pad_token_id=0, eos_token_id=1, decoder_start_token_id=0)
    torch.manual_seed(0)
    model = T5ForConditionalGeneration(config).eval()
    for parameter in model.parameters():
        # Few digits, so that the file is small.
        parameter.data = torch.round(torch.randn(parameter.shape) * 4) / 8
        if len(parameter) == config.vocab_size:
            parameter.data[num_pieces:] = 0
    return model


def score(model, inputs, targets):
    targets = torch.tensor([targets])
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([inputs]), labels=targets).logits
    return logits.log_softmax(-1).gather(-1, targets[..., None]).sum().item()


def main():
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(PIECES))
    model = make_model(pieces.get_piece_size())
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        with tarfile.open(HERE / "model.tar.gz", "w:gz") as archive:
            for name in ["config.json", "model.safetensors"]:
                archive.add(pathlib.Path(folder) / name, arcname=name)
    tasks = {}
    for task, prompt, answers, right in ranked():
        scores = [score(model, pieces.encode(prompt), pieces.encode(answer) + [1]) for answer in answers]
        best = max(range(len(scores)), key=scores.__getitem__)
        tasks.setdefault(task, []).append({"scores": scores, "best": best, "right": right})
    for examples in tasks.values():
        print([example["best"] for example in examples], [example["right"] for example in examples])
    accuracy = {task: 100 * sum(it["best"] == it["right"] for it in examples) / len(examples)
                for task, examples in tasks.items()}
    scores = {task: [it["scores"] for it in examples] for task, examples in tasks.items()}
    (HERE / "ranks.json").write_text(json.dumps({"accuracy": accuracy, "scores": scores}, indent=1) + "\n")


if __name__ == "__main__":
    main()
