"""Writes the folder sources/ and sources.json: small files of every format, and the examples in them.

Made with tensorflow 2.21.0, tensorflow-datasets 4.9.10, seqio 0.0.20, pyarrow 25.0.1,
datasets 5.2.0, Python 3.11:
    python tests/pipeline/data/reference/sources_reference.py
"""

import csv
import json
import os
import shutil

os.environ["CUDA_VISIBLE_DEVICES"] = ""
import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import seqio
import tensorflow as tf
import tensorflow_datasets as tfds
from seqio import experimental

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = os.path.join(HERE, "sources")
tf.random.set_seed(0)


def plain(value):
  """The value as JSON, texts decoded."""
  if isinstance(value, dict):
    return {k: plain(v) for k, v in value.items()}
  if isinstance(value, bytes):
    return value.decode()
  if isinstance(value, (list, tuple)):
    return [plain(v) for v in value]
  if isinstance(value, np.ndarray):
    return plain(value.tolist())
  if isinstance(value, np.bool_):
    return int(value)
  if isinstance(value, np.generic):
    return value.item()
  return value


def flat(example, prefix=""):
  """Nested features as `a/b`; lists of structs as lists; booleans as ints; None left out."""
  out = {}
  for key, value in example.items():
    name = prefix + key
    if isinstance(value, dict):
      out.update(flat(value, name + "/"))
    elif isinstance(value, list) and value and isinstance(value[0], dict):
      out.update(flat({k: [v[k] for v in value] for k in value[0]}, name + "/"))
    elif isinstance(value, bool):
      out[name] = int(value)
    elif isinstance(value, list) and value and isinstance(value[0], bool):
      out[name] = [int(v) for v in value]
    elif value is not None:
      out[name] = value
  return out


def path(*parts):
  full = os.path.join(FOLDER, *parts)
  os.makedirs(os.path.dirname(full), exist_ok=True)
  return full


def feature(values):
  if isinstance(values[0], bytes):
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
  if isinstance(values[0], float):
    return tf.train.Feature(float_list=tf.train.FloatList(value=values))
  return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def tf_examples():
  """Examples with lists, defaults and missing values, in every compression of TFRecord."""
  examples = []
  for i in range(5):
    features = {
        "text": feature([f"täxt {i}".encode()]),
        "ids": feature(list(range(-1, i)) or [0]),
        "big": feature([2**40 + i, -i]),
        "pair": feature([0.5 * i, -1.0]),
    }
    if i % 2:
      features["label"] = feature([i])
    if i < 3:
      features["words"] = feature([b"a", b"b"][:i] or [b"z"])
    examples.append(tf.train.Example(features=tf.train.Features(feature=features)))
  for kind in ("", "GZIP", "ZLIB"):
    name = path(f"examples{kind and '_' + kind.lower()}.tfrecord")
    with tf.io.TFRecordWriter(name, options=kind) as writer:
      for example in examples:
        writer.write(example.SerializeToString())
  description = {
      "text": tf.io.FixedLenFeature([], tf.string),
      "ids": tf.io.VarLenFeature(tf.int64),
      "big": tf.io.FixedLenFeature([2], tf.int64),
      "pair": tf.io.FixedLenFeature([2], tf.float32),
      "label": tf.io.FixedLenFeature([], tf.int64, default_value=-7),
      "words": tf.io.FixedLenSequenceFeature([], tf.string, allow_missing=True),
  }
  source = seqio.TFExampleDataSource({"train": path("examples.tfrecord")}, description)
  found = []
  for example in source.get_dataset("train", shuffle=False):
    example = {
        k: tf.sparse.to_dense(v) if isinstance(v, tf.SparseTensor) else v
        for k, v in example.items()
    }
    found.append(plain({k: v.numpy() for k, v in example.items()}))
  return found


def sequence_examples():
  found = []
  with tf.io.TFRecordWriter(path("sequences.tfrecord")) as writer:
    for i in range(3):
      steps = {
          "ids": tf.train.FeatureList(feature=[feature([10 * i + j]) for j in range(i)]),
          "texts": tf.train.FeatureList(feature=[feature([b"x%d" % j]) for j in range(2)]),
      }
      proto = tf.train.SequenceExample(
          context=tf.train.Features(feature={"id": feature([i])}),
          feature_lists=tf.train.FeatureLists(feature_list=steps))
      writer.write(proto.SerializeToString())
      context, lists = tf.io.parse_single_sequence_example(
          proto.SerializeToString(), {"id": tf.io.FixedLenFeature([], tf.int64)}, {
              "ids": tf.io.FixedLenSequenceFeature([], tf.int64),
              "texts": tf.io.FixedLenSequenceFeature([], tf.string)})
      found.append(plain({k: v.numpy() for k, v in {**context, **lists}.items()}))
  return found


def rows(count, start=0):
  return [{
      "text": f"täxt {i}" if i % 4 else None,
      "label": i,
      "score": i / 4,
      "flag": i % 3 == 0,
      "ids": list(range(i % 5)),
      "answers": {"text": [f"a{j}" for j in range(i % 3)], "start": [j for j in range(i % 3)]},
      "spans": [{"name": f"n{j}", "from": j} for j in range(1 + i % 2)],
      "nested": {"deep": {"x": i * 2**33}},
      "matrix": [[j / 2] * (j + i % 2) for j in range(i % 3)],
  } for i in range(start, start + count)]


SCHEMA = pa.schema([
    ("text", pa.string()),
    ("label", pa.int64()),
    ("score", pa.float64()),
    ("flag", pa.bool_()),
    ("ids", pa.list_(pa.int32())),
    ("answers", pa.struct([("text", pa.list_(pa.string())), ("start", pa.list_(pa.int32()))])),
    ("spans", pa.list_(pa.struct([("name", pa.large_string()), ("from", pa.int16())]))),
    ("nested", pa.struct([("deep", pa.struct([("x", pa.int64())]))])),
    ("matrix", pa.list_(pa.list_(pa.float32()))),
])


def columnar():
  table = pa.Table.from_pylist(rows(11), schema=SCHEMA)
  pq.write_table(table, path("rows.parquet"), row_group_size=4, compression="zstd")
  with pa.OSFile(path("rows.stream"), "wb") as sink, pa.ipc.new_stream(sink, SCHEMA) as writer:
    for batch in table.to_batches(max_chunksize=3):
      writer.write_batch(batch)
  with pa.OSFile(path("rows.arrow"), "wb") as sink, pa.ipc.new_file(sink, SCHEMA) as writer:
    for batch in table.to_batches(max_chunksize=3):
      writer.write_batch(batch)
  other = pa.table({"text": pa.array([1, 2])})
  pq.write_table(other, path("other.parquet"))
  return [flat(row) for row in pq.read_table(path("rows.parquet")).to_pylist()]


def saved():
  """What `save_to_disk` writes, read back by `load_from_disk`."""
  features = datasets.Features({
      "text": datasets.Value("string"),
      "label": datasets.ClassLabel(names=["no", "yes"]),
      "answers": datasets.Sequence({"text": datasets.Value("string"), "start": datasets.Value("int32")}),
  })

  def dataset(count):
    make = lambda i: {
        "text": f"saved {i}", "label": i % 2,
        "answers": {"text": [f"a{j}" for j in range(i % 3)], "start": list(range(i % 3))}}
    return datasets.Dataset.from_list([make(i) for i in range(count)], features=features)

  whole = datasets.DatasetDict({"train": dataset(7), "test": dataset(2)})
  whole.save_to_disk(path("saved"), num_shards={"train": 2, "test": 1})
  loaded = datasets.load_from_disk(path("saved"))
  return {split: [flat(row) for row in loaded[split]] for split in loaded}


def csv_files():
  """Quoted fields, read back by Python's own reader."""
  records = [["plain", "1", "0.5"], ["a, \"quoted\"\nline", "-2", "1e3"], ["", "3", "0"],
             ["ü;\t'", "4", ".25"]]
  for name, delimiter in (("table.csv", ","), ("table.tsv", "\t")):
    with open(path(name), "w", newline="", encoding="utf-8") as file:
      writer = csv.writer(file, delimiter=delimiter)
      writer.writerow(["text", "count", "weight"])
      writer.writerows(records)
  with open(path("table.csv"), newline="", encoding="utf-8") as file:
    return [{"text": row["text"], "count": int(row["count"]), "weight": float(row["weight"])}
            for row in csv.DictReader(file)]


def json_files():
  items = rows(4)
  with open(path("array.json"), "w") as file:
    json.dump(items, file, ensure_ascii=False, indent=1)
  with open(path("field.json"), "w") as file:
    json.dump({"version": "1", "data": items}, file)
  loaded = datasets.load_dataset("json", data_files=path("field.json"), field="data", split="train")
  return [flat(row) for row in loaded]


def tfds_data_set():
  """A data set of TFDS, and what its slices read."""
  f = tfds.features
  features = f.FeaturesDict({
      "id": np.int32, "idx": f.Scalar(np.int64), "label": f.ClassLabel(names=["no", "yes"]),
      "text": f.Text(), "score": np.float32, "flag": np.bool_,
      "answers": f.Sequence({"text": f.Text(), "answer_start": np.int32}),
      "context": {"title": f.Text(), "tags": f.Sequence(f.Text())},
      "translation": f.Translation(languages=["de", "en"]),
      "vector": f.Tensor(shape=(3,), dtype=np.float32),
      "numbers": f.Sequence(np.float64),
  })

  def example(i):
    return {
        "id": i, "idx": i + 2**33, "label": i % 2, "text": f"täxt {i}", "score": i / 4,
        "flag": i % 3 == 0,
        "answers": [{"text": f"a{j}", "answer_start": j} for j in range(i % 3)],
        "context": {"title": f"t{i}", "tags": [f"g{j}" for j in range(i % 2)]},
        "translation": {"de": f"de {i}", "en": f"en {i}"},
        "vector": np.array([i, 1, 2], np.float32), "numbers": [0.5] * (i % 2)}

  folder = path("tfds", "tiny", "small", "1.2.0", "")
  for split, count, shards, first in (("train", 17, 3, 0), ("validation", 4, 1, 100)):
    made = [features.serialize_example(features.encode_example(example(first + i)))
            for i in range(count)]
    for shard in range(shards):
      name = f"{folder}tiny-{split}.tfrecord-{shard:05d}-of-{shards:05d}"
      with tf.io.TFRecordWriter(name) as writer:
        for record in made[shard * count // shards:(shard + 1) * count // shards]:
          writer.write(record)
  tfds.folder_dataset.write_metadata(
      data_dir=folder, features=features, description="tiny", version="1.2.0")
  builder = tfds.builder_from_directory(folder)
  read = lambda split: tfds.as_numpy(builder.as_dataset(split=split))
  slices = ["train", "train[:50%]", "train[33%:66%]", "train[-3:]", "train[2:9]+validation[1:]",
            "all", "train[1shard]", "train[-1shard:]", "train[:90%]", "validation"]
  return {
      "examples": [flat(plain(e)) for e in read("train")],
      "slices": {s: [int(e["id"]) for e in read(s)] for s in slices},
  }


def few_shot():
  """`fewshot_preprocessor` of examples as the source joins them."""
  cases = []
  joined = {"train": {"inputs": ["i1", "i2"], "targets": ["t1", "t2"]},
            "eval": {"inputs": "q", "targets": "a", "id": 7}}
  listed = {"eval": {"inputs": ["q1", "q2"], "targets": ["a1", "a2"], "id": [1, 2]}}
  for example, options in (
      (joined, {}),
      (joined, {"inputs_prefix": "0 ", "targets_prefix": " X 1 ", "example_separator": " X "}),
      (joined, {"prompt": "Do this:", "reverse": True, "targets_prefix": " => "}),
      ({"eval": joined["eval"]}, {"inputs_prefix": "in: ", "prompt": "P"}),
      (listed, {"inputs_prefix": "in: ", "targets_prefix": "\nout: "})):
    dataset = tf.data.Dataset.from_tensors(example)
    made = experimental.fewshot_preprocessor(dataset, **options)
    cases.append({"example": flat(example), "options": options,
                  "made": [plain(e) for e in made.as_numpy_iterator()]})
  return cases


if __name__ == "__main__":
  shutil.rmtree(FOLDER, ignore_errors=True)
  reference = {
      "tf_examples": tf_examples(), "sequence_examples": sequence_examples(), "rows": columnar(),
      "saved": saved(), "csv": csv_files(), "json": json_files(), "tfds": tfds_data_set(),
      "few_shot": few_shot()}
  with open(os.path.join(HERE, "sources.json"), "w") as file:
    json.dump(reference, file, ensure_ascii=False, indent=None, separators=(",", ":"))
    file.write("\n")
