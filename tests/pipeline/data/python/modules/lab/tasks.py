"""Tasks as a lab writes them: with SeqIO's and t5's steps, and with steps of its own."""

import functools

import seqio
import tensorflow as tf
from t5.data import postprocessors
from t5.data import preprocessors
from t5.data.utils import rate_num_examples
from t5.evaluation import metrics

VOCABULARY = seqio.SentencePieceVocabulary("gs://lab/lab.model", extra_ids=100)
FEATURES = {
    "inputs": seqio.Feature(vocabulary=VOCABULARY, required=False),
    "targets": seqio.Feature(vocabulary=VOCABULARY),
}
END = [seqio.preprocessors.tokenize, seqio.CacheDatasetPlaceholder(), seqio.preprocessors.append_eos_after_trim]


@seqio.map_over_dataset
def tag(x, key, word):
  return {**x, key: word + x[key]}


def drop_short(dataset, least):
  return dataset.filter(lambda x: len(x["targets"]) >= least)


def examples(split, shuffle_files, seed=None, prefix=""):
  texts = [prefix + split + str(number) for number in range(6)]
  return tf.data.Dataset.from_generator(
      lambda: iter(texts), output_signature=tf.TensorSpec(shape=(), dtype=tf.string))


@seqio.map_over_dataset
def as_targets(text):
  return {"inputs": text, "targets": text}


def exact(targets, predictions):
  return {"exact": float(targets == predictions)}


def upper(text, **unused_kwargs):
  return text.upper()


seqio.TaskRegistry.add(
    "lab.summaries",
    source=seqio.TfdsDataSource(tfds_name="cnn_dailymail:3.4.0", splits={"train": "train[:90%]"}),
    preprocessors=[
        functools.partial(preprocessors.summarize, article_key="article", summary_key="highlights"),
        functools.partial(tag, key="inputs", word="lab: "),
        lambda dataset: dataset.map(lambda x: x),
        *END,
    ],
    output_features=FEATURES,
    postprocess_fn=upper,
    metric_fns=[metrics.accuracy, exact])

seqio.TaskRegistry.add(
    "lab_spans",
    source=seqio.TextLineDataSource({"train": "gs://lab/*.txt"}, skip_header_lines=1),
    preprocessors=[
        as_targets,
        functools.partial(drop_short, least=3),
        functools.partial(preprocessors.rekey, key_map={"inputs": None, "targets": "targets"}),
        seqio.preprocessors.tokenize,
        functools.partial(preprocessors.select_random_chunk, max_length=65536, feature_key="targets"),
        functools.partial(preprocessors.span_corruption, mean_noise_span_length=5.0),
        seqio.preprocessors.append_eos_after_trim,
    ],
    output_features=FEATURES,
    metric_fns=[],
    shuffle_buffer_size=None)

seqio.TaskRegistry.add(
    "lab_made",
    source=seqio.FunctionDataSource(
        functools.partial(examples, prefix="made "), splits=("train", "test"), num_input_examples={"train": 6}),
    preprocessors=[as_targets, *END],
    output_features={**FEATURES, "speech": seqio.ContinuousFeature(dtype=tf.float32, rank=2, required=False)},
    postprocess_fn=functools.partial(postprocessors.string_label_to_class_id, label_classes=["no", "yes"]),
    metric_fns=[
        metrics.sklearn_metrics_wrapper("matthews_corrcoef", metric_post_process_fn=lambda x: 100 * x),
        metrics.mean_multiclass_f1(num_classes=3),
        metrics.mean_group_metric(metrics.all_match),
    ])

seqio.MixtureRegistry.add(
    "lab_all",
    ["lab_spans", ("lab.summaries", functools.partial(rate_num_examples, maximum=1000))],
    default_rate=2)
