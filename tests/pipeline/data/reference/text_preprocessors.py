"""Writes text_preprocessors.json: what t5, seqio, promptsource and Unidecode make of records.

Made with t5 0.9.4, seqio 0.0.20, tensorflow 2.21.0, tf_keras 2.21.0, babel 2.18.0, promptsource 0.2.3
(pip install --no-deps --ignore-requires-python), jinja2 and Unidecode 1.4.0, Python 3.11:
    python tests/pipeline/data/reference/text_preprocessors.py

With `--corrections CRATE.tsv` (code point in hex, tab, the crate's text in hex, a line each) it
writes src/data/preprocess/text/unidecode.json instead.
"""

import collections
import json
import os
import sys
import warnings
import zlib

from stand_ins import stand_in_for_t5

HERE = os.path.dirname(os.path.abspath(__file__))
warnings.simplefilter("ignore")


def nested(flat):
  """{'a/b': x} as {'a': {'b': x}}."""
  out = {}
  for key, value in flat.items():
    *path, last = key.split("/")
    inner = out
    for part in path:
      inner = inner.setdefault(part, {})
    inner[last] = value
  return out


def flattened(example, prefix=""):
  out = {}
  for key, value in example.items():
    if isinstance(value, dict):
      out.update(flattened(value, f"{prefix}{key}/"))
    else:
      out[prefix + key] = plain(value)
  return out


def plain(value):
  """A numpy value as JSON."""
  if hasattr(value, "tolist"):
    value = value.tolist()
  if isinstance(value, list):
    return [plain(item) for item in value]
  if isinstance(value, bytes):
    return value.decode()
  return int(value) if isinstance(value, bool) else value


def spec_of(value):
  if isinstance(value, dict):
    return {key: spec_of(inner) for key, inner in value.items()}
  shape = [None] if isinstance(value, list) else []
  item = value[0] if isinstance(value, list) and value else value
  if isinstance(item, (str, list)):
    return tf.TensorSpec(shape, tf.string)
  return tf.TensorSpec(shape, tf.float32 if isinstance(item, float) else tf.int32)


def dataset_of(examples, lines):
  if lines:
    return tf.data.Dataset.from_tensor_slices([example["text"] for example in examples])
  examples = [nested(example) for example in examples]
  return tf.data.Dataset.from_generator(lambda: iter(examples),
                                        output_signature=spec_of(examples[0]))


def run(function, kwargs, examples, lines):
  with seqio.map_seed_manager(initial_seed=7):
    dataset = function(dataset_of(examples, lines), **kwargs)
    return [flattened(example) for example in dataset.as_numpy_iterator()]


def gin_of(name, kwargs):
  function = name.split(".")[-1]
  bindings = [f"{function}.{key} = {value!r}\n" for key, value in kwargs.items()]
  return f"steps.preprocessors = [@{name}()]\n" + "".join(bindings)


CASES, ERRORS, FREQUENCIES = [], [], []


def case(name, examples, lines=False, **kwargs):
  function = getattr(prep, name, None) or getattr(seqio.preprocessors, name)
  module = "t5.data" if hasattr(prep, name) else "seqio"
  gin = gin_of(f"{module}.preprocessors.{name}", kwargs)
  outputs = run(function, kwargs, examples, lines)
  CASES.append({"gin": gin, "examples": examples, "outputs": outputs})


def fails(name, example, lines=False, **kwargs):
  """The real one fails on the example, too."""
  function = getattr(prep, name)
  try:
    run(function, kwargs, [example], lines)
  except Exception as error:  # TensorFlow has errors of its own, and t5's are of many kinds.
    ERRORS.append({"gin": gin_of(f"t5.data.preprocessors.{name}", kwargs), "example": example,
                   "says": type(error).__name__})
  else:
    raise AssertionError(f"{name} takes {example}")


def frequencies(name, example, count=6000, **kwargs):
  """How often each output comes, of a preprocessor that draws random values."""
  found = run(getattr(prep, name), kwargs, [example] * count, False)
  counts = collections.Counter(json.dumps(example, sort_keys=True) for example in found)
  FREQUENCIES.append({
      "gin": gin_of(f"t5.data.preprocessors.{name}", kwargs), "example": example,
      "per_example": len(found) / count,
      "outputs": [[json.loads(output), round(n / count, 5)] for output, n in counts.items()]})


def translation():
  case("translate", [{"de": "Das ist gut.", "en": "That is good."}, {"de": "", "en": " a  b "}],
       source_language="de", target_language="en")
  case("translate", [{"zh-cn": "好。", "en": "Good."}], source_language="en",
       target_language="zh-cn")
  case("translate", [{"fil": "Oo.", "pt": "Sim."}], source_language="fil", target_language="pt")
  fails("translate", {"iw": "x", "en": "y"}, source_language="iw", target_language="en")
  case("multi_translate", [
      {"translations/language": ["de", "fr", "en"],
       "translations/translation": ["Das ist gut.", "C'est bon", "That is good."]},
      {"translations/language": ["fr", "en"], "translations/translation": ["Oui", "Yes"]},
      {"translations/language": ["en", "de"], "translations/translation": ["No", "Nein"]},
  ], source_language="de", target_language="en")


def plain_texts():
  case("summarize", [{"article": "a long  text", "highlights": "short"}], article_key="article",
       summary_key="highlights")
  case("lm", [{"text": "Here is some text.", "other": 3}])
  case("pad_nonspaced_languages", [
      {"text": "This is a test. 在同一个帖子 , 另一个。ありがとう\tスーパー \u0e2a\u0e27\u0e31\u0e2a",
       "n": 1},
      {"text": " \n\u0b95 \x0b한국어 plain ", "n": 2}])
  case("pad_nonspaced_languages", [{"body": "字字"}], text_key="body")
  texts = ["", "a", "abc", "äö", "abcdefg", "ab de"]
  case("filter_by_string_length", [{"targets": text, "n": i} for i, text in enumerate(texts)])
  case("filter_by_string_length", [{"inputs": text} for text in texts], feature_key="inputs",
       min_length=3, max_length=5)
  case("rekey", [{"foo": "x", "bar": "y"}], key_map={"a": "bar", "b": None, "c": "", "d": "bar"})
  case("preprocess_tensorflow_examples", [{"text": "T {x}", "x": "1", "other": "2"}],
       inputs_format="Summarize {text}: {x} {nope} {", targets_format="{other}{x}}")
  case("print_dataset", [{"text": "a", "n": 1, "ids": [1, 2, 3]}, {"text": "", "n": 2, "ids": []}],
       summarize=1)


def tsv():
  lines = lambda *texts: [{"text": text} for text in texts]
  case("parse_tsv", lines("a\tb", "\t", "\"a\"\tb"), lines=True)
  case("parse_tsv", lines("a,b,c,d", "1,,3,"), lines=True, field_names=["x", "y"],
       field_delim=",", field_columns=[1, 3])
  case("preprocess_tsv", lines("6,7,42", "2,9,18"), lines=True, field_delim=",", num_fields=3,
       inputs_format="numerator: {2} denominator: {1}", targets_format="quotient: {0} {a} {}")
  case("preprocess_tsv", lines("6,7,42", "2,9,18"), lines=True, field_delim=",",
       inputs_format="numerator: {numer} denominator: {denom}", targets_format="quotient: {quot} {0}",
       field_names=["quot", "denom", "numer"])
  case("preprocess_tsv", lines("\"a\tb", "a\"b\t\"\"", "\t"), lines=True)
  case("preprocess_tsv", lines("\"a\tb\"\tc", "\"a \"\"x\"\" b\"\t\"\"", "\"a\"\tb", "\"x\"\t",
                               "a\t\"b\nc\""), lines=True, use_quote_delim=True)
  for text in ["a\tb\tc", "a", "", "a\tb\n", "a\r\tb"]:
    fails("preprocess_tsv", {"text": text}, lines=True)
  for text in ["a\"b\tc", "\"a\"x\tc", "\"abc\td", "a\tb\tc", ""]:
    fails("preprocess_tsv", {"text": text}, lines=True, use_quote_delim=True)
  fails("parse_tsv", {"text": "a"}, lines=True)
  fails("preprocess_tsv", {"text": "a\tb"}, lines=True, targets_format="{2}")


def question_answering():
  pages, results = "entity_pages/wiki_context", "search_results/search_context"
  case("trivia_qa", [
      {"question": "Who's (really) it?", pages: ["It was Mr. X-Men, 1.5 of 2", "nothing\nhere"],
       results: ["mr X men or MR. x-men!", "a b c"],
       "answer/normalized_aliases": ["mr. x-men", "1 5", "b", "it"]},
      {"question": "None?", pages: ["a"], results: ["b"], "answer/normalized_aliases": ["z", "?"]},
      {"question": "  Two   spaces", pages: ["A|B, c*d", "{3} [x]"], results: [],
       "answer/normalized_aliases": ["a|b", "c*d", "{3}", "[xyz]", "É", "\\"]},
  ])
  case("trivia_qa", [{"question": "q?", results: ["yes it is", "no"],
                      "answer/normalized_aliases": ["Yes", "no"]}])
  fails("trivia_qa", {"question": "q", pages: ["a ( b"], results: ["c"],
                      "answer/normalized_aliases": ["(a"]})
  fails("trivia_qa", {"question": "q", "answer/normalized_aliases": ["a"]})
  squad = [
      {"id": "the id", "question": "Where's the bird-cage, \"Tom\"?",
       "context": "It is (in) the  attic.\nIt is big; the attic that is.",
       "answers/text": ["the attic", "attic.", ""]},
      {"id": "2", "question": "é_x\x0b$5?", "context": "c\u00a0d + e\x0b\x0c f",
       "answers/text": ["d"]},
      {"id": "3", "question": "q", "context": "the last word", "answers/text": ["word"]},
      {"id": "4", "question": "q", "context": "a b c d", "answers/text": ["b c"]},
      {"id": "5", "question": "q", "context": "a U.S. b c", "answers/text": ["U.S."]},
      {"id": "6", "question": "q", "context": "a", "answers/text": ["not there at all"]},
      {"id": "7", "question": "q", "context": "", "answers/text": [""]},
      {"id": "8", "question": "q", "context": "naïve tea party", "answers/text": ["tea"]},
  ]
  case("squad", squad)
  case("squad", squad[:2], include_context=False)
  case("squad_span_space_tokenized", squad)
  fails("squad", {"id": "1", "question": "q", "context": "c", "answers/text": []})
  fails("squad", {"question": "q", "context": "c", "answers/text": ["a"]})


def glue():
  case("glue", [{"question2": "Why so?", "question1": "Why  not?", "label": label, "idx": 10}
                for label in [1, 0, -1]],
       benchmark_name="qqp", label_names=["not_duplicate", "duplicate"])
  case("glue", [{"sentence1": "a", "sentence2": "b", "word": "w", "start1": 3, "label": 0,
                 "idx": 4}], benchmark_name="wic", label_names=["False", "True"],
       feature_names=("sentence1", "sentence2", "word"))
  case("glue", [{"paragraph": "<b>Sent 1: </b>One.<br><b>Sent 2: </b>Two", "question": "Q<br>?",
                 "answer": "A</b>", "label": 1, "idx/paragraph": 5, "idx/question": 1,
                 "idx/answer": 3}], benchmark_name="multirc", label_names=["False", "True"],
       feature_names=("question", "answer", "paragraph"))
  case("glue", [{"b": "B", "a": "A", "_z": "Z", "C": "c", "label": 0, "idx": 1}],
       benchmark_name="own", label_names=["no"], id_key=None)
  case("glue", [{"a": "A", "label": 0, "idx": 1, "id": "seven"}], benchmark_name="own",
       label_names=["no"], feature_names=["a"], id_key="id")
  for example in [{"a": "A", "label": 2, "idx": 1}, {"a": "A", "idx": 1}, {"a": "A", "label": 0},
                  {"a": 3, "label": 0, "idx": 1}]:
    fails("glue", example, benchmark_name="own", label_names=["no", "yes"])
  scores = [0.0, 0.1, 0.3, 0.5, 1.8, 2.5, 2.7, 2.9, 3.099, 3.1, 3.7, 4.7, 4.9, 5.0, -1.0, 1.7001]
  case("stsb", [{"sentence1": "Three  US soldiers", "sentence2": "One", "label": score, "idx": i}
                for i, score in enumerate(scores)])
  passage = "First.\n@highlight\nsecond\n@highlight\nthird!\n@highlight\n\"x\"\n@highlight\nend"
  case("record", [
      {"passage": passage, "query": "A @placeholder is a bird.", "entities": ["penguin", "potato"],
       "answers": ["penguin", "pigeon"], "idx/passage": 1, "idx/query": 2},
      {"passage": "p", "query": "q", "entities": ["e"], "answers": [], "idx/passage": 3,
       "idx/query": 4},
  ])


def coreference():
  wsc = lambda **changes: {
      "text": "This is a test sentence .", "span1_text": "test", "span1_index": 3,
      "span2_text": "This", "span2_index": 0, "label": 0, "idx": 1, **changes}
  case("wsc", [
      wsc(), wsc(label=1), wsc(label=-1), wsc(span1_index=0, span1_text="This", span2_index=3,
                                              span2_text="test"),
      wsc(text="Mr. Moore saw him (the man) .", span1_text="Mr. Moore", span2_text="him",
          span2_index=3),
      wsc(span1_index=0, span1_text="Mr. Moore", text="Mr. Moore saw (the man)", span2_index=3,
          span2_text="(the man)"),
      wsc(text="She paid $5 to Ann", span1_text="$5", span1_index=2, span2_text="She"),
      wsc(text="a\tb  c", span1_text="c", span1_index=3, span2_text="b", span2_index=1),
      wsc(span1_text="nothing"),
  ])
  fails("wsc", wsc(span1_text="(a"))
  simple = lambda **changes: {
      "text": "Mitchell asked Tom if he could lend some money.", "span1_text": "Tom",
      "span2_text": "he", "span2_index": 4, "idx": 1, "label": 1, **changes}
  examples = [
      simple(), simple(span1_text="Mitchell", label=0), simple(label=-1),
      simple(text="When they had eventually calmed down a bit , and had gotten home, Mr. Farley "
             "put the magic pebble in an iron safe . Some day they might want to use it , but "
             "really for now, what more could they wish for?", span2_text="it", span2_index=30),
      simple(text="The boy continued to whip the pony , and eventually the pony threw him over. "
             "John laughed out quite loud. \"Good for him,\" he said. ", span2_text="him",
             span2_index=20),
      simple(text="Is X or he right ? X ", span2_text="he", span2_index=3),
  ]
  case("wsc_simple", examples)
  case("wsc_simple", examples, label="", correct_referent_only=True)
  unlabelled = {key: value for key, value in simple().items() if key != "label"}
  case("wsc_simple", [unlabelled])
  for example in [simple(span2_index=0), simple(span2_index=9), simple(span2_text="she")]:
    fails("wsc_simple", example)
  dpr = lambda sentence, pronoun, label: {
      "sentence": sentence, "pronoun": pronoun, "candidates": ["Bob", "Tom"], "label": label}
  case("definite_pronoun_resolution_simple", [
      dpr("Bob asked Tom if he can lend some money and he said.", "he", 1),
      dpr("Bob told Tom it was his.", "his", 0), dpr("He, he, he. he", "he", 1),
      dpr("He saw it", "it", 0), dpr("a x.y b x,y c", "x.y", 0)])
  case("definite_pronoun_resolution_simple", [dpr("Bob hit it .", "it", 0)], label="dpr:")
  fails("definite_pronoun_resolution_simple", dpr("a", "a", 2))


def wnli():
  pairs = [
      ("Lily spoke to Donna breaking her silence.", "Lily spoke to Donna breaking Donna's silence."),
      ("The fish ate the worm. It was tasty.", "The worm was tasty."),
      ("Edward dropped adhesive tape onto his window sill, and when he pulled the tape off, some of "
       "the glue was stuck on it.", "Some of the glue was stuck on the window sill."),
      ("Al stole Bob's wallet and car, and then he was driving it really fast to get away.",
       "He was driving the car really fast to get away."),
      ("I stuck a pin through a carrot. When I pulled the pin out, it had a hole.",
       "The carrot had a hole."),
      ("John couldn't see the stage with Billy in front of him because he is so short.",
       "John is so short."),
      ("Steve follows Fred's example in everything. He admires him hugely.",
       "Steve admires him hugely."),
      ("The trophy doesn't fit into the brown suitcase because it is too large.",
       "The trophy is too large."),
      ("Anna did better than her friend Lucy on the test because she had studied so hard.",
       "Lucy had studied so hard."),
      ("Sam broke both his ankles and he's walking with crutches. But a month or so from now they "
       "should be better.", "The ankles should be better."),
      ("The path to the lake was blocked, so we couldn't use it!", "We couldn't use the lake."),
      ("Joe paid the detective after he received the final report on the case.",
       "Joe received the final report on the case?"),
  ]
  case("wnli_simple", [{"sentence1": premise, "sentence2": hypothesis, "label": i % 2, "idx": i}
                       for i, (premise, hypothesis) in enumerate(pairs)])
  case("wnli_simple", [{"sentence1": "The fish ate the worm. It was tasty.",
                        "sentence2": "The worm was tasty.", "idx": 3}], label="w:")
  fails("wnli_simple", {"sentence1": "No pronoun here.", "sentence2": "None.", "idx": 1})


def unsupervised():
  texts = [{"text": text} for text in [
      "First here. Second there! Third?? Fourth... and a fifth", "  Only one.  ", "", "A.B.\nC! D",
      "one\ntwo. three.\n\n . four.", "a?!b"]]
  case("neighboring_pairs", texts)
  case("neighboring_pairs", texts, reuse_sentences=False)
  case("split_text_to_words", [{"text": "one", "n": 1}, {"text": " a\tb\x0bc\u00a0d \n", "n": 2},
                               {"text": "", "n": 3}])
  case("split_text_to_words", [{"t": "a b c"}, {"t": "a b"}], text_key="t", min_num_words=3)
  for p_neighbors in [1.0, 0.0]:
    case("next_sentence_prediction", texts, p_neighbors=p_neighbors, buffer_size=1)
  case("next_sentence_prediction", texts, p_neighbors=0.0, buffer_size=1, label_sentences=True,
       reuse_sentences=False, label="")
  case("random_split_text", [{"text": "a b  c d e f\tg h i j"}, {"text": ""}, {"text": " x "}],
       min_words_per_segment=4, max_words_per_segment=4)
  frequencies("random_split_text", {"text": "a b c d e f g"}, min_words_per_segment=1,
              max_words_per_segment=4, max_words_total=5)
  frequencies("random_split_text", {"text": "a b c d e"}, min_words_per_segment=2,
              max_words_per_segment=9, max_words_total=0)
  frequencies("fill_in_the_blank", {"text": "The fat  cat sat."})
  frequencies("fill_in_the_blank", {"text": "two words"}, label="x ")
  frequencies("fill_in_the_blank_sized", {"text": "a b c d e"})
  frequencies("fill_in_the_blank_sized", {"text": "a b c d e f g"}, size_bins=[6, 3], label="")
  frequencies("next_sentence_prediction", {"text": "a. b. c."}, count=4000, p_neighbors=0.3,
              buffer_size=1)


def ranking():
  features = lambda **changes: {
      "premise": "The farmland needed irrigation.", "question": "effect",
      "choice1": "a canal was constructed", "choice2": "the crops grew tall", "label": 0, **changes}
  formats = dict(inputs_formats="{premise} What is the {question}? X",
                 targets_formats=["I think {choice1}.", "I think {choice2}."])
  examples = [features(), features(label=1), features(label=-1), features(choice1="a\\\\b \\0 c")]
  case("rank_classification_formatter", examples, **formats)
  case("rank_classification_formatter", examples, mode="train", **formats)
  case("rank_classification_formatter", examples, mode="fewshot_eval", **formats)
  case("rank_classification_formatter", [features(choice1="\\1"), features(choice1="a\\b")],
       **formats)
  case("rank_classification_formatter",
       [{"a/b": "x", "c": "y", "labels": [0, 2], "w": 0.3}, {"a/b": "", "c": "z", "labels": [1],
                                                             "w": 2.0}],
       inputs_formats=["1 {a/b}", "2", "3 {c} {a/b}"], targets_formats="{c}: {c}",
       label_key="labels", weight_key="w")
  for example in [features(choice1=3), {"premise": "x", "label": 0}]:
    fails("rank_classification_formatter", example, **formats)
  fails("rank_classification_formatter", features(), inputs_formats="a", targets_formats="b")
  fails("rank_classification_formatter", features(), inputs_formats=["a"],
        targets_formats=["b", "c"])

  examples = [
      {"inputs": "Right?", "answer_choices": ["Yes", "No"], "targets": " No "},
      {"inputs": "Left?", "answer_choices": ["a", "b", "a"], "targets": "a"},
  ]
  t0 = dict(
      inputs_fn=lambda ex: tf.fill((tf.size(ex["answer_choices"]),), ex["inputs"]),
      targets_fn=lambda ex: ex["answer_choices"],
      is_correct_fn=lambda ex: tf.equal(ex["answer_choices"], tf.strings.strip(ex["targets"])))
  functions("steps.preprocessors = [@t5.data.preprocessors.rank_classification()]\n", examples, t0)
  weighted = ("steps.preprocessors = [@t5.data.preprocessors.rank_classification()]\n"
              "rank_classification.weight_fn = @gimlet.example.constant()\n"
              "constant.value = 1.0\nrank_classification.mode = 'train'\n"
              "rank_classification.passthrough_feature_keys = ['answer_choices']\n")
  functions(weighted, examples, dict(
      t0, weight_fn=lambda ex: 1.0, mode="train", passthrough_feature_keys=["answer_choices"]))
  functions(weighted.replace("'train'", "'fewshot_eval'").replace("answer_choices", "targets_of"),
            [{**example, "targets_of": 4} for example in examples], dict(
                t0, weight_fn=lambda ex: 1.0, mode="fewshot_eval",
                passthrough_feature_keys=["targets_of"]))
  own = ("steps.preprocessors = [@t5.data.preprocessors.rank_classification()]\n"
         "rank_classification.inputs_fn = @a/gimlet.example.get()\na/get.key = 'prefix'\n"
         "rank_classification.targets_fn = @b/gimlet.example.get()\nb/get.key = 'suffix'\n"
         "rank_classification.is_correct_fn = @gimlet.example.one_hot()\n"
         "one_hot.key = 'label'\none_hot.num_classes = 2\n"
         "rank_classification.weight_fn = @c/gimlet.example.get()\nc/get.key = 'weight'\n")
  functions(own, [{"prefix": ["The farmland needed ", "The farmland wanted "],
                   "suffix": ["water", "cows"], "label": 0, "weight": 0.7}], dict(
      inputs_fn=lambda ex: ex["prefix"], targets_fn=lambda ex: ex["suffix"],
      is_correct_fn=lambda ex: tf.one_hot(ex["label"], 2), weight_fn=lambda ex: ex["weight"]))


def functions(gin, examples, kwargs):
  outputs = run(prep.rank_classification, kwargs, examples, False)
  CASES.append({"gin": gin, "examples": examples, "outputs": outputs})


def prompted(template, choices, example):
  """What T0 makes of a record, `None` where it drops it."""
  example = {key.replace("-", "_"): value for key, value in nested(example).items()}
  template = Template("name", template, "", answer_choices=choices)
  parts = template.apply(example)
  if len(parts) != 2 or not parts[0]:
    return []
  out = {"inputs": parts[0], "targets": parts[1] or "<NO LABEL>"}
  listed = template.get_answer_choices_list(example)
  return [{**out, "answer_choices": listed} if listed else out]


def prompt(template, examples, choices=None):
  kwargs = {"template": template}
  if choices is not None:
    kwargs["answer_choices"] = choices
  outputs = [output for example in examples for output in prompted(template, choices, example)]
  CASES.append({"gin": gin_of("gimlet.preprocessors.apply_template", kwargs),
                "examples": examples, "outputs": outputs})


def prompts():
  nli = [{"premise": "A man  sleeps. ", "hypothesis": "He\nrests", "label": 0, "idx": 3},
         {"premise": "p ||| q", "hypothesis": "\"h\" & 'g'", "label": 1, "idx": 4}]
  prompt("{{premise}} Are we justified in saying that \"{{hypothesis}}\"? Yes or no? ||| "
         "{% if label !=-1 %}{{ answer_choices[label] }}{% endif %}",
         nli + [{"premise": "p", "hypothesis": "h", "label": -1, "idx": 1}], choices="Yes ||| No")
  prompt("{% if label == 0 %}{{premise}} ||| {{hypothesis}}{% endif %}", nli)
  prompt("{{premise}} ||| a ||| b", nli)
  prompt("||| {{premise}}", nli)
  prompt("no separator", nli)
  prompt("{{ 'context' | capitalize }}: {{ text }} {{ n }} {{ x }} {{ y }} {{ ids }} {{ names }} "
         "{{ floats }} {{ missing }} {{ none }} {{ n == 3 }} {{ missing or 'other' }} ||| "
         "{{ names | join(', ') }} {{ names | length }} {{ names[0] }} {{ names[-1] }} "
         "{{ names[1:] }} {{ text[2:5] }} {{ (n + 1) }} {{ (n / 2) }} {{ (n // 2) }} {{ (n % 2) }}",
         [{"text": "ABC déf's", "n": 3, "x": 1.0, "y": 1e-07, "ids": [1, 2],
           "names": ["a", "it's", "q\"", "é"], "floats": [0.5, 2.0]}])
  prompt("{% set pairs = zip(answers.text, answers.answer_start) %}{% for text, start in pairs %}"
         "{{ loop.index }}: {{ text }} at {{ start }}{% if not loop.last %}; {% endif %}{% endfor %}"
         " ||| {{ answers.text | most_frequent | choice }}",
         [{"answers/text": ["b", "a", "b"], "answers/answer_start": [1, 2, 3]},
          {"answers/text": ["z"], "answers/answer_start": [0]}])
  prompt("{{ question.split(' ')[0].lower() }} {{ question.replace('?', '!').upper() }} "
         "{{ question.strip() }} {{ question.startswith('W') }} {{ question.title() }} "
         "{{ ' '.join(words) }} {{ question.index('i') }} {{ words.index('two') }} "
         "{{ question | replace('i', 'j') | trim }} {{ question | lower }} {{ words | last }} "
         "{{ '%s-%d' | format('a', 3) }} {{ question.endswith('?') }} {{ question.find('z') }} "
         "{{ question.count('i') }} {{ question.capitalize() }} {{ words | first | upper }}"
         "||| {{ words | tojson }} {{ {'b': 1, 'a': [true, none, 0.5]} | tojson }} "
         "{{ question | tojson }} {{ (words | list)[0] }} {{ words | reverse | join }}",
         [{"question": "What is it, <b>é</b>?", "words": ["one", "two"]}])
  prompt("{%- set ns = namespace(found=0) -%}{%- for w in words -%}{%- if w in text -%}"
         "{%- set ns.found = ns.found + 1 -%}{%- endif -%}{%- endfor -%} {{ ns.found }} of "
         "{{ words | length }}: {% for i in range(3) %}{{ i }}{% endfor %} {{ 2.5 | round }} "
         "{{ 3.14159 | round(2) }} {{ 1.5 | round | int }} {{ 7 | string }} {{ (('7' | int) + 1) }} "
         "{{ words | map('upper') | join('-') }} {{ words | unique | list }} {{ words | sort }} "
         "{{ (-3) | abs }} {{ (1, 'a') }} {{ text | truncate(9) }} ||| {# comment #}\n"
         "{{ text if words else 'none' }}\n",
         [{"text": "alpha beta gamma delta", "words": ["beta", "x", "Alpha", "beta", "gamma"]}])
  prompt("{{text}} ||| {{ text | length }}", [{"text": "word " * 411}, {"text": "w" * 2054},
                                             {"text": "x" * 2053}])
  prompt("{{ text | int }} {{ '2.7' | int }} {{ names | int(5) }} {{ x | int }} {{ text | float }} "
         "{{ missing | length }} {{ '1' | float }} {{ (x > 1) | int }} {{ nest }} ||| {{ x | string }}"
         "{% for key, value in nest.items() %} {{ key }}={{ value }}{% endfor %} {{ nest.get('q') }}",
         [{"text": "t", "names": ["a"], "x": 1.9, "nest/z": 1, "nest/a/b": "it's", "nest/c": []}])
  prompt("{{ sentence_1 }} {{ a.b_c }} ||| {{ choices.label.index(key) }} {{ answer_choices }}",
         [{"sentence-1": "S", "a/b_c": "n ||| m", "choices/label": ["A", "B"], "key": "B"}],
         choices="{{ choices.label | join('|||') }}")
  prompt("{{ ([text, 'x'] | choice | length > 0) }} ||| {{ text }}\n", [{"text": "t"}])
  prompt("{% for c in answer_choices %}{{ c }};{% endfor %} ||| {{ answer_choices[0] }}",
         [{"options": ["  a b ", "c|||d"]}], choices="{{ options | join(' ||| ') }}")


def unidecoded():
  """A checksum of each block of 256 code points, as Unidecode writes them."""
  blocks = {}
  for block in range(0x1100):
    points = [point for point in range(block << 8, (block + 1) << 8)
              if not 0xD800 <= point < 0xE000]
    text = "\n".join(unidecode.unidecode(chr(point)) for point in points)
    if text.strip("\n"):
      blocks[f"{block:x}"] = zlib.crc32(text.encode())
  return blocks


def corrections(path):
  runs, last = [], None
  with open(path) as table:
    for line in table:
      point, text = line.rstrip("\n").split("\t")
      point, text = int(point, 16), bytes.fromhex(text).decode()
      if text in ("[?]", "[?] ") or 0x80 <= point < 0xA0:
        text = ""
      expected = unidecode.unidecode(chr(point))
      if text != expected:
        if last == point - 1:
          runs[-1][1].append(expected)
        else:
          runs.append([point, [expected]])
        last = point
  lines = ",\n".join(json.dumps(run, separators=(",", ":")) for run in runs)
  source = os.path.join(HERE, "../../../../src/data/preprocess/text/unidecode.json")
  with open(source, "w") as file:
    file.write(f"[\n{lines}\n]\n")


def languages():
  """The English name of every language code that Babel knows."""
  import babel
  import babel.localedata
  codes = sorted({code[:2] for code in babel.localedata.locale_identifiers()})
  names = {}
  for code in codes:
    try:
      names[code] = babel.Locale(code).english_name
    except babel.UnknownLocaleError:
      names[code] = None
  return names


def printed():
  """What `print_dataset` prints of examples."""
  values = ["hello", "", 3, 0.1, 2.0, 1e10, 0.12345678, 1234567.0, 123456789.0, 1e-5, 1 / 3, ["a", "b", "c", "d", "e", "f", "g"], [1, 2],
            [[1, 2], [3, 4]], [[1] * 8] * 8, [[0.5, 2.0]],
            [1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6, 7], [1.5, 2.0], ["a\"b\n", "\\"]]
  several = {"inputs": "a: b", "targets": [3, 1], "weights": [0.5]}
  return [[example, summarize, lines_of(example, summarize)]
          for example in [{"k": value} for value in values] + [several] for summarize in [3, -1, 1]]


def lines_of(example, summarize):
  """TensorFlow prints to the file descriptor of standard output."""
  path, stdout = os.path.join(HERE, "printed.tmp"), os.dup(1)
  with open(path, "w") as file:
    os.dup2(file.fileno(), 1)
  dataset = tf.data.Dataset.from_tensors({k: tf.constant(v) for k, v in example.items()})
  list(seqio.preprocessors.print_dataset(dataset, summarize=summarize))
  os.dup2(stdout, 1)
  os.close(stdout)
  with open(path) as file:
    text = file.read()
  os.remove(path)
  return text


if __name__ == "__main__":
  import unidecode
  if sys.argv[1:2] == ["--corrections"]:
    corrections(sys.argv[2])
    sys.exit()
  # SeqIO's `print_dataset` calls what Keras 3 has not.
  os.environ["TF_USE_LEGACY_KERAS"] = "1"
  stand_in_for_t5()
  from t5.data import preprocessors as prep
  import seqio
  import tensorflow as tf
  from promptsource.templates import Template
  for family in [translation, plain_texts, tsv, question_answering, glue, coreference, wnli,
                 unsupervised, ranking, prompts]:
    family()
  with open(os.path.join(HERE, "text_preprocessors.json"), "w") as file:
    write = lambda rows: ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    file.write("{\"cases\": [\n" + write(CASES) + "],\n\"errors\": [\n" + write(ERRORS))
    file.write("],\n\"frequencies\": [\n" + write(FREQUENCIES) + "],\n\"printed\": ")
    file.write(json.dumps(printed()) + ",\n\"languages\": " + json.dumps(languages()))
    file.write(",\n\"unidecode\": " + json.dumps(unidecoded()) + "}\n")
