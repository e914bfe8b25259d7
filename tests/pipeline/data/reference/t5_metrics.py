"""Writes t5_metrics.json and t5_postprocessors.json, which the tests compare with.

Made with t5 0.9.4, sacrebleu 2.6.0, rouge-score 0.1.2, scikit-learn 1.9.1, scipy 1.17.1, Python 3.11:
    python tests/pipeline/data/reference/t5_metrics.py
"""

import json
import math
import os
import random
import warnings

from stand_ins import stand_in_for_t5

warnings.filterwarnings("ignore")
HERE = os.path.dirname(os.path.abspath(__file__))
stand_in_for_t5()
import numpy as np
from rouge_score import rouge_scorer
from t5.data import postprocessors
from t5.evaluation import metrics

WORDS = ("the a an cat sat on mat dog ran over it's , . ! 3.5 1,000 $5 50% don't über straße — „ja“ 你好 "
         "नमस्ते x-ray e.g. well-known 2019. (see) U.S. €20 ½ naïve").split()


def sentences(rng, count, longest=12):
  return [" ".join(rng.choice(WORDS) for _ in range(rng.randint(0, longest))) for _ in range(count)]


def changed(rng, sentence):
  words = [w for w in sentence.split(" ") if rng.random() > 0.15]
  return " ".join(rng.choice(WORDS) if rng.random() < 0.15 else w for w in words)


def rouge_mean(targets, predictions, score_keys):
  """What newer versions of t5 call rouge_mean; the bootstrap's result varies around it."""
  scorer = rouge_scorer.RougeScorer(score_keys)
  prepare = lambda text: text.replace(" . ", " .\n")
  scores = [scorer.score(target=prepare(t), prediction=prepare(p))
            for t, p in zip(targets, predictions)]
  return {k: 100 * float(np.mean([s[k].fmeasure for s in scores])) for k in score_keys}


def case(metric, targets, predictions, function, gin=()):
  values = {k: float(v) for k, v in function(list(targets), list(predictions)).items()}
  values = {k: None if math.isnan(v) else v for k, v in values.items()}
  return {"metric": metric, "gin": list(gin), "targets": targets, "predictions": predictions,
          "values": values}


def texts_cases(rng):
  for count in (1, 6):
    targets = sentences(rng, count)
    predictions = [changed(rng, t) for t in targets]
    for tokenizer in ("intl", "13a", "char", "none"):
      yield case("bleu", targets, predictions,
                 lambda t, p: metrics.bleu(t, p, tokenizer=tokenizer), [f"bleu.tokenizer = '{tokenizer}'"])
    keys = ["rouge1", "rouge2", "rouge3", "rougeL", "rougeLsum"]
    yield case("rouge_mean", targets, predictions, lambda t, p: rouge_mean(t, p, keys),
               [f"rouge_mean.score_keys = {keys}"])
    yield case("edit_distance", targets, predictions, metrics.edit_distance)
    yield case("edit_distance", [t.upper() for t in targets], predictions,
               lambda t, p: metrics.edit_distance(t, p, lower=False), ["edit_distance.lower = False"])
    yield case("sequence_accuracy", targets, targets[:1] + predictions[1:], metrics.sequence_accuracy)
    answers = [[t, changed(rng, t), rng.choice(WORDS)] for t in targets]
    for name in ("squad", "trivia_qa", "coqa_f1"):
      yield case(name, answers, predictions, getattr(metrics, name))
    places = [f"start: {rng.randint(0, 5)} end: {rng.randint(0, 9)}" for _ in targets]
    places[0] = rng.choice(["start: one end: two", "start: 1", "start: 7 end: 3"])
    spans = [{"answers": [" ".join(t.split()[:3])], "context": t} for t in targets]
    yield case("span_squad", spans, places, metrics.span_squad)
  long = [" . ".join(sentences(rng, 3, 12)) for _ in range(4)]
  predictions = [changed(rng, t) for t in long]
  yield case("rouge_mean", long, predictions, lambda t, p: rouge_mean(t, p, ["rougeL", "rougeLsum"]),
             ["rouge_mean.score_keys = ['rougeL', 'rougeLsum']"])
  yield case("bleu", long, predictions, metrics.bleu)
  yield case("bleu", long, ["x"] * 4, metrics.bleu)
  yield case("squad", [["Bob's hat", "the"], ["a"]], ["bobs  hat", ""], metrics.squad)


def label_cases(rng):
  for count in (1, 12):
    for low, high in ((0, 1), (0, 2), (-1, 2)):
      targets = [rng.randint(0, max(high - (low < 0), 1)) for _ in range(count)]
      predictions = [t if rng.random() < 0.6 else rng.randint(low, high) for t in targets]
      yield case("accuracy", targets, predictions, metrics.accuracy)
      yield case("all_match", targets, predictions, metrics.all_match)
      yield case("mean_multiclass_f1", targets, predictions, metrics.mean_multiclass_f1(3),
                 ["mean_multiclass_f1.num_classes = 3"])
      matthews = metrics.sklearn_metrics_wrapper(
          "matthews_corrcoef", metric_post_process_fn=lambda x: 100 * x)
      yield case("sklearn_metrics_wrapper", targets, predictions, matthews, [
          "sklearn_metrics_wrapper.metric_str = 'matthews_corrcoef'",
          "sklearn_metrics_wrapper.metric_post_process_fn = @percentage"])
      binary = [min(t, 1) for t in targets]
      yield case("f1_score_with_invalid", binary, predictions, metrics.f1_score_with_invalid)
      groups = [{"value": t, "group": [rng.randint(0, 3), 7]} for t in binary]
      values = [{"value": p} for p in predictions]
      as_tuples = lambda f: lambda t, p: f([dict(x, group=tuple(x["group"])) for x in t], p)
      yield case("multirc_f1_over_all_answers", groups, values,
                 metrics.multirc_f1_over_all_answers)
      yield case("mean_group_metric", groups, values,
                 as_tuples(metrics.mean_group_metric(metrics.all_match)),
                 ["mean_group_metric.metric_fn = @all_match"])
      yield case("mean_group_metric", groups, values,
                 as_tuples(metrics.mean_group_metric(metrics.accuracy, return_subgroup_scores=True)),
                 ["mean_group_metric.metric_fn = @accuracy",
                  "mean_group_metric.return_subgroup_scores = True"])
      yield case("deduplicate_metric", groups, values,
                 as_tuples(metrics.deduplicate_metric(metrics.accuracy)),
                 ["deduplicate_metric.metric_fn = @accuracy"])
  targets = [rng.randint(0, 1) for _ in range(30)]
  predictions = [t if rng.random() < 0.6 else rng.randint(0, 1) for t in targets]
  for name in ("accuracy_score", "f1_score", "precision_score", "recall_score",
               "mean_absolute_error", "mean_squared_error"):
    yield case("sklearn_metrics_wrapper", targets, predictions,
               metrics.sklearn_metrics_wrapper(name, metric_dict_str="mine"),
               [f"sklearn_metrics_wrapper.metric_str = '{name}'",
                "sklearn_metrics_wrapper.metric_dict_str = 'mine'"])
  yield case("accuracy", ["a", "b"], ["a", "c"], metrics.accuracy)


def number_cases(rng):
  for count in (2, 20):
    targets = [rng.randint(0, 25) / 5 for _ in range(count)]
    predictions = [round(t + rng.gauss(0, 1), 1) for t in targets]
    yield case("pearson_corrcoef", targets, predictions, metrics.pearson_corrcoef)
    yield case("spearman_corrcoef", targets, predictions, metrics.spearman_corrcoef)
    labels = [rng.randint(0, 1) for _ in range(count)]
    scores = [round(t + rng.gauss(0, 1), 1) for t in labels]
    labels[0], labels[1] = 0, 1
    yield case("auc", labels, scores, metrics.auc)
    yield case("score_auc", [0.2, 0.7] + targets[2:], scores,
               lambda t, s: metrics.score_auc(t, s, targets_threshold=0.5),
               ["score_auc.targets_threshold = 0.5"])
  yield case("pearson_corrcoef", [1.0, 2.0], [3.0, 3.0], metrics.pearson_corrcoef)
  yield case("auc", [1, 1], [0.1, 0.2], metrics.auc)


def ranking_cases(rng):
  for classes, several, weighted in ((2, False, False), (2, False, True), (3, False, True),
                                     (4, True, True), (None, False, True)):
    targets, scores = [], []
    for example in range(8):
      options = classes or rng.randint(1, 4)
      right = {rng.randrange(options) for _ in range(2 if several else 1)}
      weight = rng.randint(1, 4) / 2 if weighted else 1.0
      for option in range(options):
        targets.append([[example, option], option in right, weight, rng.randint(1, 9)])
        scores.append(round(-5 + 2 * (option in right) + rng.gauss(0, 2), 2))
    order = list(range(len(targets)))
    rng.shuffle(order)
    targets, scores = [targets[i] for i in order], [scores[i] for i in order]
    as_tuples = lambda t: [(tuple(idx), *rest) for idx, *rest in t]
    for by_length in (False, True):
      yield case("rank_classification", targets, scores,
                 lambda t, s: metrics.rank_classification(as_tuples(t), s, num_classes=classes,
                                                          normalize_by_target_length=by_length),
                 [f"rank_classification.num_classes = {classes}",
                  f"rank_classification.normalize_by_target_length = {by_length}"])


EXAMPLE = {
    "answers": ["Bob", "Robert"], "context": "Bob is here.", "label": 1, "idx": [3, 1],
    "idx/question": [4, 2], "idx/passage": 5, "idx/query": 6, "is_correct": True,
    "targets": [7, 8, 1], "targets_pretokenized": "the Fuzzy bunny", "other": 9}


def postprocessor_cases():
  for name, texts, gin, extra in [
      ("string_to_float", ["1.5", " 2 ", "3e2", "1_0", "_1", "1_", "+.5", "5.", "", "two", "0x1"], [], {}),
      ("string_to_float", ["x"], ["string_to_float.default = 7.5"], {"default": 7.5}),
      ("lower_text", ["ÀB c", "ΑΣ"], [], {}),
      ("string_label_to_class_id", ["no", "yes", "maybe"],
       ["string_label_to_class_id.label_classes = ['no', 'yes']"], {"label_classes": ["no", "yes"]}),
      ("multirc", ["False", "True", "true"], [], {}),
      ("record", ["Bob"], [], {}),
      ("qa", ["Bob"], [], {}),
      ("span_qa", ["start: 1 end: 2"], [], {}),
      ("wsc_simple", ["bunny", "The bunny", "a", "", "fuzzy  bunny", "bunny's", "cat", "fuzzy cat"], [], {}),
      ("rank_classification", ["-1.5"], [], {}),
      ("rank_classification", ["-1.5"], ["rank_classification.passthrough_feature_keys = ['other']"],
       {"passthrough_feature_keys": ["other"]}),
  ]:
    function = getattr(postprocessors, name)
    for text in texts:
      for is_target in (False, True):
        value = function(text, example=EXAMPLE, is_target=is_target, **extra)
        yield {"postprocessor": name, "gin": gin, "text": text, "is_target": is_target,
               "value": value}


def write(name, cases):
  with open(os.path.join(HERE, name), "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c, ensure_ascii=False) for c in cases) + "\n]\n")


if __name__ == "__main__":
  rng = random.Random(0)
  write("t5_metrics.json", [*texts_cases(rng), *label_cases(rng), *number_cases(rng),
                            *ranking_cases(rng)])
  write("t5_postprocessors.json", [{"example": EXAMPLE}, *postprocessor_cases()])
