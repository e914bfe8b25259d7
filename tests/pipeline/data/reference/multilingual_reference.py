"""Writes multilingual_preprocessors.json and multilingual_metrics.json: what the preprocessors, metrics and
postprocessors of multilingual_t5 and t5_cbqa make of records and answers.

Made with t5 0.9.4, seqio 0.0.20, tensorflow 2.21.0, multilingual_t5 at 9dcd60f (github.com/google-research/
multilingual-t5), t5_cbqa of github.com/google-research/google-research (t5_closed_book_qa) at 0c1bbe5, Python
3.11, both packages in one folder SOURCES:
    python tests/pipeline/data/reference/multilingual_reference.py SOURCES
"""

import json
import os
import sys

from stand_ins import stand_in, stand_in_for_t5

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, sys.argv[1])
stand_in_for_t5()
# mT5's package imports its tasks.
stand_in(("multilingual_t5", "multilingual_t5.evaluation"), sys.argv[1])
import numpy as np
import t5
t5.evaluation = sys.modules["t5.evaluation"]
import tensorflow as tf
from multilingual_t5 import preprocessors as mt5
from multilingual_t5.evaluation import metrics as mt5_metrics
from t5_cbqa import metrics as cbqa_metrics
from t5_cbqa import postprocessors as cbqa_postprocessors
from t5_cbqa import preprocessors as cbqa

CASES = []


def plain(value):
  if isinstance(value, bytes):
    return value.decode()
  if isinstance(value, np.ndarray):
    return [plain(v) for v in value.tolist()]
  return value.item() if isinstance(value, np.generic) else value


def case(library, function, gin, records, flat=None, **arguments):
  """A function over records; `flat` are the same ones as Gimlet reads them."""
  signature = lambda x: tf.nest.map_structure(lambda v: tf.convert_to_tensor(v), x)
  datasets = [tf.data.Dataset.from_tensors(r if any_ragged(r) else signature(r)) for r in records]
  outputs = []
  for ds in datasets:
    for out in function(ds, **arguments).as_numpy_iterator():
      outputs.append({k: plain(v) for k, v in out.items()})
  name = f"{library}.preprocessors.{function.__name__}"
  lines = [f"steps.preprocessors = [@{name}()]", *(f"{function.__name__}.{g}" for g in gin)]
  CASES.append({"gin": "\n".join(lines) + "\n", "examples": flat or [flattened(r) for r in records],
                "outputs": outputs})


def any_ragged(record):
  return any(isinstance(v, tf.RaggedTensor) for v in tf.nest.flatten(record))


def flattened(record, prefix=""):
  out = {}
  for key, value in record.items():
    if isinstance(value, dict):
      out.update(flattened(value, f"{prefix}{key}/"))
    elif isinstance(value, tf.RaggedTensor):
      rows = iter(plain(value.flat_values.numpy()))
      out[prefix + key] = [[next(rows) for _ in range(n)] for n in value.row_lengths().numpy()]
    else:
      out[prefix + key] = plain(value.numpy() if tf.is_tensor(value) else value)
  return out


def question(text, context, answers, id="x"):
  return {"id": id, "question": text, "context": context, "answers": {"text": answers}}


def nq(question, yes_no, short):
  """Short answers by annotator: (text, first token, last token)."""
  column = lambda i, dtype: tf.ragged.constant([[a[i] for a in row] for row in short], dtype=dtype, ragged_rank=1)
  return {"question": {"text": tf.constant(question)}, "annotations": {
      "yes_no_answer": tf.constant(yes_no, tf.int64),
      "short_answers": {"text": column(0, tf.string), "start_token": column(1, tf.int64),
                        "end_token": column(2, tf.int64)}}}


def preprocessor_cases():
  asked = [question("François a-t-il «ri»?", "Oui,  il a ri.\tIl_a… 3½ fois!", ["ri", "il a «ri»"]),
           question("कौन है?", "हिन्दी में। «x» ﷽ 你好，世界", ["हिन्दी"]),
           question("a\u200bb $5 ^^ ́x", " e\u0301 ", ["", "b"])]
  case("multilingual_t5", mt5.xquad, [], asked)
  case("multilingual_t5", mt5.xquad, ["include_context = False"], asked[:1], include_context=False)
  case("multilingual_t5", mt5.process_mnli, [],
       [{"premise": "A  dog.", "hypothesis": "An animal.", "label": 0},
        {"premise": "", "hypothesis": "x", "label": -1}])
  xnli = {"hypothesis": {"language": ["de", "en", "de"], "translation": ["ja", "yes", "jawohl"]},
          "label": 2, "premise": {"de": "Hund", "en": "dog", "fr": "chien"}}
  case("multilingual_t5", mt5.process_xnli, ["target_languages = ['en', 'de', 'fr']"], [xnli],
       target_languages=["en", "de", "fr"])
  case("multilingual_t5", mt5.filter_tydiqa_by_language, ["lang = 'finnish'"],
       [{"id": "finnish--76-0"}, {"id": "english-1-2"}, {"id": "finnish"}, {"id": "finnish2-1"}],
       lang="finnish")
  case("multilingual_t5", mt5.wikiann, [],
       [{"tokens": ["rick", "and", "morty", "."], "tags": [1, 0, 1, 0], "langs": ["en"] * 4,
         "spans": ["PER: rick", "PER: morty"]}])
  annotated = [
      nq("who is it", [-1, 1, -1], [[("Bob", 3, 4), ("his son Al", 5, 8)], [], []]),
      nq("is it", [0, 1], [[], []]),
      nq("nobody knows", [-1, -1], [[], []]),
      nq("when", [-1, -1, -1], [[("now", 1, 2)], [("right now", 1, 9), ("then", 4, 5)], [("later", 7, 8)]]),
  ]
  case("t5_cbqa", cbqa.natural_questions_nocontext, [], annotated)
  case("t5_cbqa", cbqa.natural_questions_nocontext, ["drop_yes_no = True", "max_answers = 1", "prefix = 'q: '"],
       annotated, drop_yes_no=True, max_answers=1, prefix="q: ")
  case("t5_cbqa", cbqa.natural_questions_nocontext, ["max_tokens = 2"], annotated, max_tokens=2)
  case("t5_cbqa", cbqa.mask_salient_spans, [],
       [{"text": "Zoë met Bob in Łódź.", "spans": {"start": np.array([0, 9, 16]), "limit": np.array([4, 12, 23])}},
        {"text": "Nothing.", "spans": {"start": np.array([], np.int64), "limit": np.array([], np.int64)}}])


def metric_cases():
  answers = {
      "en": (["The  cat's a $5 hat", "an"], "cats 5 hat"), "es": (["¿La casa?", "unos"], "casa la"),
      "de": (["Die Straße – des Königs", "einer"], "straße königs"), "vi": (["những con mèo của tôi"], "con mèo tôi"),
      "ar": (["القمر الكبير"], "قمر كبير"), "hi": (["यह राम है।"], "राम है"), "zh": (["北京abc 大学。", "x"], "北京 abc大"),
  }
  for lang, (target, prediction) in answers.items():
    targets, predictions = [target, ["other"], target], [prediction, "", target[0].upper()]
    yield {"metric": "mlqa", "gin": [f"mlqa.lang = '{lang}'"], "targets": targets, "predictions": predictions,
           "values": mt5_metrics.mlqa(targets, predictions, lang=lang)}
  targets = ["PER: rick $$ PER: morty", "LOC: a", "", "ORG: x $$ ORG: x"]
  predictions = ["PER: rick $$ LOC: morty", "LOC:a $$ odd $$ a: b: c", "PER: y", "ORG: x $$ ORG: x $$ ORG: x"]
  for n in (4, 1, 3):
    yield {"metric": "span_f1", "gin": [], "targets": targets[:n], "predictions": predictions[:n],
           "values": mt5_metrics.span_f1(targets[:n], predictions[:n])}
  targets = [[["Bob", "the Al"], ["yes"]], [[], ["no"]], [["a b"], ["c"], []], [["x"], ["y"]]]
  predictions = [[["al", "bob"]], [["no"]], [["A  B."]], [[]]]
  for gin, extra in [([], {}), (["natural_questions.non_null_threshold = 1"], {"non_null_threshold": 1}),
                     (["natural_questions.normalize_answers = False"], {"normalize_answers": False})]:
    yield {"metric": "natural_questions", "gin": gin, "targets": targets, "predictions": predictions,
           "values": cbqa_metrics.natural_questions(targets, predictions, **extra)}


def postprocessor_cases():
  example = {"short_answers/values": ["Bob", "Al", "now"], "short_answers/row_starts": [0, 2, 2, 2],
             "yes_no_answers": [-1, 1, 0, -1]}
  arrays = {"short_answers/values": np.array(example["short_answers/values"], object),
            "short_answers/row_starts": np.array(example["short_answers/row_starts"]),
            "yes_no_answers": np.array(example["yes_no_answers"])}
  # The original asks an array for its truth, which only arrays of up to one value have.
  split = np.split
  np.split = lambda values, starts: [list(part) for part in split(values, starts)]
  for text, is_target in [("answer: Bob answer:  Al ", False), ("Bob", False), ("", False), ("x", True)]:
    value = cbqa_postprocessors.natural_questions(text, example=arrays, is_target=is_target)
    yield {"postprocessor": "natural_questions", "gin": [], "text": text, "is_target": is_target,
           "example": example, "value": [list(group) for group in value]}
  np.split = split


def write(name, parts):
  rows = lambda items: "[\n" + ",\n".join(json.dumps(i, ensure_ascii=False) for i in items) + "\n]"
  with open(os.path.join(HERE, name), "w") as f:
    f.write("{" + ",\n".join(f'"{k}": {rows(v)}' for k, v in parts.items()) + "}\n")


if __name__ == "__main__":
  preprocessor_cases()
  write("multilingual_preprocessors.json", {"cases": CASES})
  write("multilingual_metrics.json", {"metrics": list(metric_cases()), "postprocessors": list(postprocessor_cases())})
