"""Writes t5_experiments_metrics.json: the metrics of t5-experiments' fine-tuning programs, of SCROLLS and of hyperpartisan news.

Made with rouge_score 0.1.2, scikit-learn 1.9.1, Python 3.11:
    python tests/pipeline/data/reference/t5_experiments_metrics.py
Sentences for rougeLsum end at white space after a mark, in place of NLTK's model.
"""

import collections
import json
import os
import re
import string
import warnings

from rouge_score import rouge_scorer
import sklearn.metrics

warnings.filterwarnings("ignore")
HERE = os.path.dirname(os.path.abspath(__file__))
ROUGES = ["rouge1", "rouge2", "rougeL", "rougeLsum"]

SUMMARIES = [
    "The report found three faults. None of them was serious! \"Was it?\" Agencies agreed to mend them.",
    "One sentence only, about harbours and ships",
    "",
    "Costs rose by 4.5 percent. Costs fell later.",
]
GUESSES = [
    "Three faults were found. The agencies agreed to mend them. None was serious.",
    "A sentence about ships and harbours. Only one.",
    "something",
    "Costs rose by 4.5 percent.\nCosts fell.",
]
ANSWERS = [["the Big moose!", "a hippo"], ["Yes"], ["No.", "Unanswerable"], ["thirty-two  of them"]]
REPLIES = ["a hippopotamus, big", "yes", "unanswerable", "of them, thirty-two were"]
LABELS = {"false": 0, "true": 1}
TEXTS = ["true", " True. ", "the true", "false", "FALSE!", "an untrue one", "", "true true", "“true”"]


def normalized(text):
  text = "".join(c for c in text.lower() if c not in string.punctuation)
  return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def token_f1(guess, answer):
  guess, answer = normalized(guess).split(), normalized(answer).split()
  common = sum((collections.Counter(guess) & collections.Counter(answer)).values())
  return 2 * common / (len(guess) + len(answer)) if common else 0.0


def equal(guess, answer):
  return float(normalized(guess) == normalized(answer))


def best(score, guesses, answers):
  values = [max(score(guess, answer) for answer in several) for guess, several in zip(guesses, answers)]
  return 100 * sum(values) / len(values)


def lines(text):
  return re.sub(r"([.?!][\"')]*)\s", r"\1\n", text)


def rouge(guesses, answers):
  scorer = rouge_scorer.RougeScorer(ROUGES, use_stemmer=False)
  score = lambda name: lambda guess, answer: scorer.score(lines(answer), lines(guess))[name].fmeasure
  values = {f"rouge/{name}": best(score(name), guesses, answers) for name in ROUGES}
  product = values["rouge/rouge1"] * values["rouge/rouge2"] * values["rouge/rougeL"]
  return {**values, "rouge/geometric_mean": product ** (1 / 3)}


def scrolls(score, targets, predictions):
  answers = [[target] if isinstance(target, str) else target for target in targets]
  if score == "rouge":
    values = rouge(predictions, answers)
  else:
    values = {score: best(token_f1 if score == "f1" else equal, predictions, answers)}
  return {"metric": "scrolls", "gin": [f"scrolls.score = '{score}'"], "targets": targets, "predictions": predictions,
          "values": {name: round(value, 4) for name, value in values.items()}}


def metrics():
  several = [[summary, guess] for summary, guess in zip(SUMMARIES, GUESSES[1:] + GUESSES[:1])]
  yield scrolls("rouge", SUMMARIES, GUESSES)
  yield scrolls("rouge", several, GUESSES)
  for score in ("f1", "exact_match"):
    yield scrolls(score, ANSWERS, REPLIES)
    yield scrolls(score, [several[0] for several in ANSWERS], REPLIES)
  for targets in ([1, 1, 0, 0, 0, 1], [0, 0, 0, 0, 0, 0]):
    predictions = [1, 0, 0, 1, 0, 1]
    for name in ("accuracy", "f1", "precision", "recall"):
      value = getattr(sklearn.metrics, f"{name}_score")(targets, predictions)
      gin = [f"sklearn_metrics_wrapper.metric_str = '{name}_score'", f"sklearn_metrics_wrapper.metric_dict_str = '{name}'"]
      yield {"metric": "sklearn_metrics_wrapper", "gin": gin, "targets": targets, "predictions": predictions,
             "values": {name: float(value)}}


def postprocessors():
  gin = ["normalized_label_to_class_id.label_classes = ['false', 'true']"]
  for text in TEXTS:
    yield {"postprocessor": "normalized_label_to_class_id", "gin": gin, "text": text, "is_target": False,
           "value": LABELS.get(normalized(text), 0)}


with open(os.path.join(HERE, "t5_experiments_metrics.json"), "w") as file:
  json.dump({"metrics": list(metrics()), "postprocessors": list(postprocessors())}, file, indent=1)
  file.write("\n")
