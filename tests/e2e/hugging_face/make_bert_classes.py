"""Writes `bert_classes`, a small BERT with random weights and a head of classes as transformers save it, and beside it what transformers
compute with it: the logarithms of the classes' probabilities, and the losses of a training on all of its examples at once.

Made with transformers 5.24.0 and torch 2.11.0 (python 3.11):
    python tests/e2e/hugging_face/make_bert_classes.py
"""

import json
import pathlib

import torch
from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

FOLDER = pathlib.Path(__file__).parent / "bert_classes"
PIECES = "[PAD] [UNK] [CLS] [SEP] [MASK] news fox ##es the a 0 1 2 3".split()
LABELS = ["false", "true"]
TEXTS = ["the FOXES 1", "news 2 a fox the 3", "a", "Foxes: news 0"]
EXAMPLES = [(text, ["true", "false", "false", "true"][number]) for number, text in enumerate(TEXTS)]
STEPS = 4
RATE = 1e-2


def main():
    torch.manual_seed(0)
    FOLDER.mkdir(exist_ok=True)
    config = BertConfig(
        vocab_size=len(PIECES), hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24,
        max_position_embeddings=32, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
        id2label=dict(enumerate(LABELS)), label2id={label: number for number, label in enumerate(LABELS)})
    model = BertForSequenceClassification(config).eval()
    for name, parameter in model.named_parameters():
        parameter.data.normal_(float(name.endswith("LayerNorm.weight")), 0.4)
    model.save_pretrained(FOLDER)
    (FOLDER / "vocab.txt").write_text("".join(piece + "\n" for piece in PIECES))
    settings = {"do_lower_case": True, "tokenizer_class": "BertTokenizer"}
    (FOLDER / "tokenizer_config.json").write_text(json.dumps(settings) + "\n")
    tokenizer = BertTokenizerFast(str(FOLDER / "vocab.txt"))
    scores = []
    for text in TEXTS:
        logits = model(**tokenizer(text, return_tensors="pt")).logits
        scores.append(logits.log_softmax(-1)[0].tolist())
    batch = tokenizer([text for text, _ in EXAMPLES], return_tensors="pt", padding=True)
    labels = torch.tensor([LABELS.index(label) for _, label in EXAMPLES])
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.1)
    losses = []
    for _ in range(STEPS):
        loss = model(**batch, labels=labels).loss
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    expected = {"texts": TEXTS, "labels": LABELS, "scores": scores, "examples": EXAMPLES, "losses": losses}
    (FOLDER / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


main()
