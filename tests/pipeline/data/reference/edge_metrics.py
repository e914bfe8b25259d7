"""Writes edge_metrics.json: metrics of t5 where their libraries decide, on what is seldom met.

Made with sacrebleu 2.6.0, scikit-learn 1.9.1, scipy 1.17.1, Python 3.11:
    python tests/pipeline/data/reference/edge_metrics.py
"""

import json
import math
import os
import random
import re
import warnings

import sacrebleu
import scipy.stats
import sklearn.metrics

warnings.filterwarnings("ignore")
HERE = os.path.dirname(os.path.abspath(__file__))


def plain(value):
  """Numbers that JSON has not, as Gimlet writes them."""
  if isinstance(value, list):
    return [plain(item) for item in value]
  if isinstance(value, float) and not math.isfinite(value):
    return None if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
  return value


def case(metric, gin, targets, predictions, compute):
  """What the library says, or None for its error."""
  try:
    values = {k: plain(float(v)) for k, v in compute(targets, predictions).items()}
  except ValueError:
    values = None
  return {"metric": metric, "gin": gin, "targets": plain(targets), "predictions": plain(predictions),
          "values": values}


def bleu_cases():
  """As t5's `bleu` calls sacrebleu."""
  targets = ["one-two three\r\n", "a b c d e\n", "你好，世界 hello—world. 3,5 €\t", "x\u2029", "fünf-\n", "…sechs ☃ acht 9.\x1f"]
  predictions = ["one-two three", "a b c d e-\n", " 你好世界，hello—world. 3,5€", "x", "fünf", "…sechs ☃acht 9."]
  for tokenizer in ("13a", "intl", "char", "zh", "none"):
    for count in (1, 3, len(targets)):
      bleu = lambda t, p: {"bleu": sacrebleu.corpus_bleu(
          p, [t], smooth_method="exp", smooth_value=0.0, tokenize=tokenizer).score}
      yield case("bleu", [f"bleu.tokenizer = '{tokenizer}'"], targets[:count], predictions[:count], bleu)


def correlation_cases(rng):
  pearson = lambda t, p: {"pearson_corrcoef": 100 * scipy.stats.pearsonr(t, p)[0]}
  spearman = lambda t, p: {"spearman_corrcoef": 100 * scipy.stats.spearmanr(t, p)[0]}
  near = lambda count, at, by: [at + by * rng.random() for _ in range(count)]
  for targets, predictions in [
      ([1.0], [2.0]),
      ([1.0, 2.0], [2.0, 5.0]),
      ([0.1] * 3, [1.0, 2.0, 3.0]),
      ([1e200, -1e200, 3e190, 5.0], [2.0, 1.0, 4.0, 1e180]),
      ([1e-200, -1e-200, 3e-190], [2.0, 1.0, 4.0]),
      (near(140, 1e15, 4.0), near(140, 1e15, 9.0)),
      (near(9, 1e15, 1.0), near(9, 1e15, 4.0)),
      ([1.0, math.inf, 2.0], [1.0, 2.0, 3.0]),
      ([1.0, math.inf, -math.inf, 2.0], [1.0, 2.0, 3.0, -math.inf]),
      ([1.0, math.nan, 2.0], [1.0, 2.0, 3.0]),
  ]:
    yield case("pearson_corrcoef", [], targets, predictions, pearson)
    if len(targets) < 10:
      yield case("spearman_corrcoef", [], targets, predictions, spearman)


def auc_cases():
  auc = lambda t, p: {"auc-roc": sklearn.metrics.roc_auc_score(t, p),
                      "auc-pr": sklearn.metrics.average_precision_score(t, p)}
  above = lambda t, p: auc([0 if x < 0.5 else 1 for x in t], p)
  yield case("auc", [], [0, 1, 1], [0.1, math.nan, 0.3], auc)
  yield case("auc", [], [0, 1, 1], [0.1, math.inf, 0.3], auc)
  yield case("auc", ["auc.targets_threshold = 0.5"], [0.1, math.nan, 0.9, 0.2], [0.1, 0.4, 0.3, 0.35], above)


def sklearn_cases(rng):
  both = lambda labels, count: ([rng.choice(labels) for _ in range(count)], [rng.choice(labels) for _ in range(count)])
  lists = [both([0, 1], 9), both([0, 1, 2], 9), both(["no", "yes"], 7), ([0, 0], [0, 0]),
           ([0, 0], [1, 1]), ([2, 2, 0], [0, 0, 0])]
  arguments = [{}, {"average": "micro"}, {"average": "macro"}, {"average": "weighted"},
               {"average": "macro", "labels": [0, 1, 5], "zero_division": 1.0},
               {"average": "weighted", "labels": [1, 5], "zero_division": 1.0},
               {"average": "weighted", "labels": [5, 7]}, {"average": "micro", "labels": [1, 2]},
               {"pos_label": "yes"}, {"pos_label": 0}]
  for targets, predictions in lists:
    for name in ("f1_score", "precision_score", "jaccard_score", "fbeta_score"):
      for given in arguments:
        if isinstance(targets[0], str) and "labels" in given:
          continue
        given = dict(given, beta=0.5) if name == "fbeta_score" else given
        metric = lambda t, p: {name: getattr(sklearn.metrics, name)(t, p, **given)}
        gin = [f"sklearn_metrics_wrapper.{k} = {v!r}" for k, v in given.items()]
        yield case("sklearn_metrics_wrapper", [f"sklearn_metrics_wrapper.metric_str = '{name}'", *gin],
                   targets, predictions, metric)
  for name in ("accuracy_score", "matthews_corrcoef"):
    metric = lambda t, p: {"mine": getattr(sklearn.metrics, name)(t, p)}
    yield case("sklearn_metrics_wrapper", [f"sklearn_metrics_wrapper.metric_str = '{name}'",
                                           "sklearn_metrics_wrapper.metric_dict_str = 'mine'"], *lists[2], metric)
  error = lambda t, p: {"mean_absolute_error": sklearn.metrics.mean_absolute_error(t, p)}
  yield case("sklearn_metrics_wrapper", ["sklearn_metrics_wrapper.metric_str = 'mean_absolute_error'"],
             [1.0, 2.0], [1.0, math.nan], error)


def words(text):
  return re.sub(r"\W", " ", text).split()


def answer_at(context, place):
  """The words that t5's `span_squad` takes for the prediction."""
  context, place = words(context), words(place)
  if len(place) < 4:
    return ""
  try:
    return " ".join(context[int(place[1]):int(place[3]) + 1])
  except ValueError:
    return ""


def span_cases():
  """Whether `span_squad` finds the answer that Python's slices give."""
  context = "null eins zwei, नमस्ते drei vier1 fünf sechs sieben acht neun zehn elf zwölf"
  for place in ("start: 1 end: 2", "start: ١ end: ٣", "start: 1_0 end: 1_1", "start: _1 end: 2", "start: 1 end: 2_",
                "start: 2 end: 99999999999999999999999", "start: ０ end: 𝟙", "start: 2 end: 1", "start:\u00a01\u3000end:\x1c3",
                "start: ½ end: 2", "start: ² end: 3", "start: 3 end: 6 or 7", "start: " + "9" * 4301 + " end: 1"):
    answer = answer_at(context, place)
    found = {"em": 100.0, "f1": 100.0 if answer else 0.0}
    yield {"metric": "span_squad", "gin": [], "targets": [{"answers": [answer], "context": context}],
           "predictions": [place], "values": found}


def float_cases():
  for text in ("nan", "-NaN", "inf", "+Infinity", "-inf", "infinit", "١٢.٥", "１e２", " \u3000 𝟙_𝟚\u2003", "1__0", "1_.5", "1._5", "½", "²", "",
               "1e400", "-1e400", "5e-324", "1e", "0x10", "١_٢", "\x1c1\x1f", "1 2", "٫5", "nan(1)", "1_000.5"):
    try:
      value = float(text)
    except ValueError:
      value = -1.0
    yield {"postprocessor": "string_to_float", "gin": [], "text": text, "is_target": False, "value": plain(value)}


def lines(cases):
  return "[\n" + ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases) + "\n]"


if __name__ == "__main__":
  rng = random.Random(0)
  metrics = [*bleu_cases(), *correlation_cases(rng), *auc_cases(), *sklearn_cases(rng), *span_cases()]
  with open(os.path.join(HERE, "edge_metrics.json"), "w") as f:
    f.write('{"metrics": ' + lines(metrics) + ',\n"postprocessors": ' + lines(float_cases()) + "}\n")
