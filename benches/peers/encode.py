"""Python's SentencePiece doing what `benches/encode.rs` does, with the same JSON lines.

Needs sentencepiece 0.2.1 (0.2.3 finds a few other ids) and numpy. Run it through `compare_encode.py`.
"""

import argparse
import json
import time
import zlib

import numpy
import sentencepiece


def encode(lines, size, model):
    processor = sentencepiece.SentencePieceProcessor(model_file=model)
    start, cpu = time.perf_counter(), time.process_time()
    ids = processor.encode(lines, num_threads=1)
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu
    flat = numpy.concatenate([numpy.asarray([len(line), *line], "<i4") for line in ids])
    print(json.dumps({"model": model, "megabytes": size / 1e6, "tokens": sum(map(len, ids)),
                      "checksum": zlib.crc32(flat.tobytes()), "seconds": seconds, "cpu_seconds": cpu_seconds}),
          flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--corpus", required=True)
    parser.add_argument("models", nargs="+")
    args = parser.parse_args()
    assert sentencepiece.__version__ == "0.2.1"
    with open(args.corpus, encoding="utf-8", newline="\n") as file:
        lines = file.read().split("\n")
    size = sum(len(line.encode()) for line in lines)
    for model in args.models:
        encode(lines, size, model)


if __name__ == "__main__":
    main()
