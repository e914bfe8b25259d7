"""SeqIO and SentencePiece doing what `benches/text_to_batches.rs` does, on one core.

Needs seqio 0.0.20, tensorflow-cpu 2.21, tensorflow-text, sentencepiece, babel and gin-config, and t5 0.9.4
unpacked (`pip download --no-deps t5`; only `t5/data/preprocessors.py` is read):
    taskset -c 0 python benches/peers/text_to_batches.py corpus.txt sentencepiece.model T5_FOLDER
"""

import importlib.util
import os
import sys
import time

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import sentencepiece
import seqio
import tensorflow as tf

BATCH_SIZE = 128


def tokenize(corpus, model):
  processor = sentencepiece.SentencePieceProcessor(model_file=model)
  with open(corpus) as f:
    lines = [next(f).rstrip("\n") for _ in range(20_000)]
  megabytes = sum(len(line.encode()) for line in lines) / 1e6
  for name, encode in [
      ("one line a call", lambda: [processor.encode(line) for line in lines]),
      ("batch call", lambda: processor.encode(lines, num_threads=1))]:
    start = time.time()
    tokens = sum(map(len, encode())) / 1e6
    seconds = time.time() - start
    print(f"tokenize, {name}: {megabytes / seconds:.1f} MB/s, {tokens / seconds:.2f} M tokens/s")


def t5_preprocessors(folder):
  path = os.path.join(folder, "t5/data/preprocessors.py")
  spec = importlib.util.spec_from_file_location("t5_preprocessors", path)
  module = importlib.util.module_from_spec(spec)
  spec.loader.exec_module(module)
  return module


def corrupt_spans(corpus, model, t5, pack):
  vocabulary = seqio.SentencePieceVocabulary(model, extra_ids=100)
  feature = seqio.Feature(vocabulary)

  @seqio.map_over_dataset
  def to_targets(line):
    return {"inputs": "", "targets": line}

  name = f"bench_{pack}"
  seqio.TaskRegistry.add(
      name, source=seqio.TextLineDataSource({"train": corpus}),
      preprocessors=[to_targets, seqio.preprocessors.tokenize, t5.span_corruption,
                     seqio.preprocessors.append_eos_after_trim],
      output_features={"inputs": feature, "targets": feature})
  dataset = seqio.get_dataset(
      name, {"inputs": 512, "targets": 114}, dataset_split="train", shuffle=True, seed=0,
      feature_converter=seqio.EncDecFeatureConverter(pack=pack), num_epochs=None)
  options = tf.data.Options()
  options.threading.private_threadpool_size = 1
  batches = iter(dataset.batch(BATCH_SIZE, drop_remainder=True).with_options(options)
                 .prefetch(4).as_numpy_iterator())
  for _ in range(8):
    next(batches)
  start = time.time()
  count, tokens = 60, 0
  for _ in range(count):
    batch = next(batches)
    tokens += (batch["encoder_input_tokens"] != 0).sum() + (batch["decoder_target_tokens"] != 0).sum()
  seconds = time.time() - start
  print(f"span corruption 512/114{' packed' if pack else ''}: {count * BATCH_SIZE / seconds:.0f} rows/s, "
        f"{tokens / 1e6 / seconds:.2f} M tokens/s")


def main():
  corpus, model, folder = sys.argv[1:4]
  tokenize(corpus, model)
  t5 = t5_preprocessors(folder)
  for pack in (False, True):
    corrupt_spans(corpus, model, t5, pack)


if __name__ == "__main__":
  main()
