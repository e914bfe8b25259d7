"""Converts a T5 1.1 of random float32 values from one format to the next by `gimlet checkpoint convert`, and prints
what each takes: seconds, and the peak of the process's memory.

The files lie in the page cache as far as that holds them; nothing is dropped from it.

Usage: python conversion.py --gimlet=BINARY --dir=FOLDER [--megabytes=3130] [--formats t5x orbax mesh_tensorflow torch]
(`cargo build --release --no-default-features` makes BINARY, target/release/gimlet; numpy is needed)
"""

import argparse
import json
import math
import os
import pathlib
import shutil
import subprocess
import time

import numpy

from peers.compare_import import tensors


def write(file, megabytes):
    """A file of safetensors, tensor by tensor: the length of the header, the header, the values."""
    header, at = {}, 0
    for name, shape in tensors(megabytes):
        length = 4 * math.prod(shape)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + length]}
        at += length
    text = json.dumps(header).encode()
    random = numpy.random.default_rng(0)
    with open(file, "wb") as out:
        out.write(len(text).to_bytes(8, "little") + text)
        for _, shape in tensors(megabytes):
            random.standard_normal(shape, numpy.float32).tofile(out)
    return at


def convert(gimlet, source, target, format):
    """Seconds, CPU seconds, and bytes at the peak."""
    start = time.perf_counter()
    words = [gimlet, "checkpoint", "convert", str(source), str(target), f"--to={format}"]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    told = process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    if status != 0:
        raise SystemExit(told)
    # Linux counts in units of 1024 bytes.
    return time.perf_counter() - start, used.ru_utime + used.ru_stime, 1024 * used.ru_maxrss


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gimlet", required=True)
    parser.add_argument("--dir", required=True)
    parser.add_argument("--megabytes", type=int, default=3130)
    parser.add_argument("--formats", nargs="+", default=["t5x", "orbax", "mesh_tensorflow", "torch"])
    args = parser.parse_args()

    folder = pathlib.Path(args.dir)
    source = folder / "hugging_face"
    source.mkdir(parents=True)
    size = write(source / "model.safetensors", args.megabytes)
    config = {"model_type": "t5", "num_heads": 12, "d_kv": 64, "is_gated_act": True, "tie_word_embeddings": False}
    (source / "config.json").write_text(json.dumps(config))
    print(f"{size / 1e6:.0f} MB of float32")
    for format in args.formats:
        target = folder / format
        seconds, cpu, peak = convert(args.gimlet, source, target, format)
        print(f"{source.name:>12} to {format:12}: {seconds:6.1f} s, cpu {cpu:6.1f} s, {size / 1e6 / seconds:5.0f} MB/s, "
              f"peak {peak / 1e6:5.0f} MB", flush=True)
        shutil.rmtree(source)
        source = target
    shutil.rmtree(source)


if __name__ == "__main__":
    main()
