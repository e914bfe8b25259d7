"""SeqIO and SentencePiece doing what `benches/pipeline.rs` does, with the same JSON lines.

Preprocessors are t5's own. Needs seqio 0.0.20, tensorflow-cpu 2.21, tensorflow-text, babel, gin-config,
sentencepiece 0.2.1 (0.2.3 finds a few other ids), and t5 0.9.4 unpacked (`pip download --no-deps t5==0.9.4`, unzip;
only `t5/data/preprocessors.py` is read). Run it through `compare_pipeline.py`.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import sys
import time
import zlib

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy
import seqio
import tensorflow as tf

BATCH_SIZE = 128
WARM_UP = 8
LINES = 20_000


def measured(run):
    start, cpu = time.perf_counter(), time.process_time()
    found = run()
    return found, {"seconds": time.perf_counter() - start, "cpu_seconds": time.process_time() - cpu}


def tokenize(corpus, model):
    processor = seqio.SentencePieceVocabulary(model, extra_ids=100).tokenizer
    with open(corpus, encoding="utf-8", newline="\n") as file:
        lines = [line.rstrip("\n") for line, _ in zip(file, range(LINES))]
    ids, times = measured(lambda: processor.encode(lines, num_threads=1))
    flat = numpy.concatenate([numpy.asarray(line, "<i4") for line in ids])
    size = sum(len(line.encode()) for line in lines)
    print(json.dumps({"measure": "tokenize", "megabytes": size / 1e6, "tokens": len(flat),
                      "checksum": zlib.crc32(flat.tobytes()), **times}), flush=True)


def t5_preprocessors(folder):
    path = pathlib.Path(folder, "t5/data/preprocessors.py")
    spec = importlib.util.spec_from_file_location("t5_preprocessors", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where autograph looks for it
    spec.loader.exec_module(module)
    return module


def corrupt_spans(corpus, model, t5, pack, num_batches, threads=1):
    feature = seqio.Feature(seqio.SentencePieceVocabulary(model, extra_ids=100))
    rekey = seqio.map_over_dataset(lambda line: {"inputs": "", "targets": line})
    name = f"bench_{pack}"
    seqio.TaskRegistry.add(
        name, source=seqio.TextLineDataSource({"train": corpus}),
        preprocessors=[rekey, seqio.preprocessors.tokenize, t5.span_corruption,
                       seqio.preprocessors.append_eos_after_trim],
        output_features={"inputs": feature, "targets": feature})
    dataset = seqio.get_dataset(
        name, {"inputs": 512, "targets": 114}, dataset_split="train", shuffle=True, seed=0,
        feature_converter=seqio.EncDecFeatureConverter(pack=pack), num_epochs=None)
    options = tf.data.Options()
    options.threading.private_threadpool_size = threads
    batches = dataset.batch(BATCH_SIZE, drop_remainder=True).with_options(options).prefetch(4)
    batches = batches.as_numpy_iterator()
    for _ in range(WARM_UP):
        next(batches)

    def real_tokens(batch):
        return int((batch["encoder_input_tokens"] != 0).sum() + (batch["decoder_target_tokens"] != 0).sum())

    tokens, times = measured(lambda: sum(real_tokens(next(batches)) for _ in range(num_batches)))
    measure = "span_corruption_packed" if pack else "span_corruption"
    print(json.dumps({"measure": measure, "examples": num_batches * BATCH_SIZE, "tokens": tokens, **times}),
          flush=True)


def cached(corpus, model, folder, num_batches):
    """The cache that Gimlet made, as examples."""
    feature = seqio.Feature(seqio.SentencePieceVocabulary(model, extra_ids=100))
    seqio.TaskRegistry.add(
        "bench", source=seqio.TextLineDataSource({"train": corpus}),
        preprocessors=[seqio.preprocessors.tokenize, seqio.CacheDatasetPlaceholder(),
                       seqio.preprocessors.append_eos_after_trim],
        output_features={"inputs": feature, "targets": feature})
    seqio.set_global_cache_dirs([folder])
    dataset = seqio.get_dataset(
        "bench", {"inputs": 512, "targets": 114}, dataset_split="train", shuffle=True, seed=0, use_cached=True,
        feature_converter=seqio.EncDecFeatureConverter(pack=False), num_epochs=None)
    options = tf.data.Options()
    options.threading.private_threadpool_size = 1
    batches = dataset.batch(BATCH_SIZE, drop_remainder=True).with_options(options).prefetch(4).as_numpy_iterator()
    for _ in range(WARM_UP):
        next(batches)
    _, times = measured(lambda: [next(batches) for _ in range(num_batches)])
    print(json.dumps({"measure": "cached", "examples": num_batches * BATCH_SIZE, **times}), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--t5", required=True, help="folder with t5's package")
    parser.add_argument("--batches", type=int, default=60)
    parser.add_argument("--cache", help="folder of Gimlet's cache")
    args = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tokenize(args.corpus, args.model)
    t5 = t5_preprocessors(args.t5)
    for pack in (False, True):
        corrupt_spans(args.corpus, args.model, t5, pack, args.batches)
    if args.cache:
        cached(args.corpus, args.model, args.cache, args.batches * 10)


if __name__ == "__main__":
    main()
