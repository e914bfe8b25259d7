"""Writes the loss and the norms of gradients of real flaxformer's LongT5 on packed rows, with the parameters of make_hf_longt5.py.

    python make_flaxformer_longt5.py --t5x=T5X_CHECKOUT --flaxformer=FLAXFORMER_CHECKOUT

Made with google/flaxformer 399ea3a and its own gin files, gin-config 0.5.0, and the versions of tests/e2e/t5x/make_runs.py, on a
CPU in float32. It also compares flaxformer's loss of the rows of make_hf_longt5.py with that of transformers.
"""

import argparse
import json
import os
import pathlib
import sys

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
MODELS = {"hf_longt5_local": "longt5_1_1_flaxformer", "hf_longt5_transient_global": "longt5_1_1_transient_global_flaxformer"}
# Lengths of the inputs and targets of the examples of each row. Some are shorter than a block with a global token.
ROWS = [[(31, 7), (3, 4), (50, 9), (18, 3)], [(86, 11), (13, 6)]]
INPUTS_LENGTH, TARGETS_LENGTH = 110, 25


def network(record, name):
    import gin

    dims, span = record["dims"], record["span"]
    macros = {
        "NUM_ENCODER_LAYERS": dims["num_encoder_layers"], "NUM_DECODER_LAYERS": dims["num_decoder_layers"],
        "NUM_HEADS": dims["num_heads"], "HEAD_DIM": dims["head_dim"], "EMBED_DIM": dims["emb_dim"],
        "MLP_DIM": dims["mlp_dim"], "NUM_EMBEDDINGS": dims["vocab_size"], "ACTIVATION_DTYPE": "'float32'",
        "LOCAL_RADIUS": span["local_radius"]}
    if "tokens_per_block" in span:
        macros["TOKENS_PER_BLOCK"] = span["tokens_per_block"]
    gin.clear_config()
    gin.parse_config_files_and_bindings(
        [f"flaxformer/t5x/configs/longt5/architectures/{name}.gin"],
        [f"{macro} = {value}" for macro, value in macros.items()])
    return gin.query_parameter("%ARCHITECTURE").scoped_configurable_fn()


def shifted(targets, segments=None):
    inputs = np.pad(targets, ((0, 0), (1, 0)))[:, :-1]
    if segments is not None:
        inputs[segments != np.pad(segments, ((0, 0), (1, 0)))[:, :-1]] = 0
    return inputs


def packed_rows(vocab_size):
    random = np.random.default_rng(3)
    rows = {name: np.zeros((len(ROWS), length), np.int32) for name, length in [
        ("inputs", INPUTS_LENGTH), ("targets", TARGETS_LENGTH), ("input_segments", INPUTS_LENGTH),
        ("target_segments", TARGETS_LENGTH), ("input_positions", INPUTS_LENGTH)]}
    for row, examples in enumerate(ROWS):
        start = [0, 0]
        for number, lengths in enumerate(examples, 1):
            for i, (kind, length) in enumerate(zip(("input", "target"), lengths)):
                part = slice(start[i], start[i] + length)
                rows[kind + "s"][row, part] = [*random.integers(2, vocab_size, length - 1), 1]
                rows[kind + "_segments"][row, part] = number
                if kind == "input":
                    rows["input_positions"][row, part] = range(length)
                start[i] += length
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--flaxformer", required=True, help="checkout of google/flaxformer")
    parser.add_argument("--t5x", required=True, help="checkout of google-research/t5x")
    options = parser.parse_args()
    sys.path[:0] = [os.path.abspath(path) for path in (options.t5x, options.flaxformer)]
    sys.path.append(str(HERE.parents[1] / "e2e" / "t5x"))
    import compare_flaxformer
    import make_runs

    make_runs.stand_in_for_modules_that_pypi_lacks()
    compare_flaxformer.stand_in_for_aqt()
    os.chdir(options.flaxformer)  # gin-config finds included files there
    import jax
    import jax.numpy as jnp
    from flax import traverse_util

    for name, architecture in MODELS.items():
        record = json.loads((HERE / f"{name}.json").read_text())
        module = network(record, architecture)
        tokens = {key: np.array(record[key], np.int32) for key in ("inputs", "targets")}
        call = dict(encoder_input_tokens=tokens["inputs"], decoder_input_tokens=shifted(tokens["targets"]),
                    decoder_target_tokens=tokens["targets"], enable_dropout=False)
        shapes = jax.eval_shape(lambda: module.init(jax.random.PRNGKey(0), **call))["params"]
        flat = traverse_util.flatten_dict(shapes, sep="/")
        values = np.fromfile(HERE / f"{name}.bin", "<f4")
        assert 2 * sum(np.prod(shape.shape) for shape in flat.values()) == len(values), "other parameters"
        params, start = {}, 0
        for path in sorted(flat):
            size = int(np.prod(flat[path].shape))
            params[path] = values[start:start + size].reshape(flat[path].shape)
            start += size

        def loss(flat, call):
            params = traverse_util.unflatten_dict(flat, sep="/")
            logits = jax.nn.log_softmax(module.apply({"params": params}, **call))
            targets = call["decoder_target_tokens"]
            found = jnp.take_along_axis(logits, targets[..., None], -1)[..., 0]
            return -(found * (targets > 0)).sum() / (targets > 0).sum()

        found = float(loss(params, call))
        assert abs(found - record["loss"]) < 2e-6 * record["loss"], (found, record["loss"])
        rows = packed_rows(record["dims"]["vocab_size"])
        packed = dict(
            encoder_input_tokens=rows["inputs"], decoder_target_tokens=rows["targets"],
            decoder_input_tokens=shifted(rows["targets"], rows["target_segments"]),
            encoder_segment_ids=rows["input_segments"], decoder_segment_ids=rows["target_segments"],
            encoder_positions=rows["input_positions"], enable_dropout=False)
        value, gradients = jax.value_and_grad(loss)(params, packed)
        result = dict(loss=float(value), norms={path: float(np.linalg.norm(it)) for path, it in sorted(gradients.items())})
        result |= {key: rows[key].tolist() for key in ("inputs", "targets", "input_segments", "target_segments")}
        result["decoder_inputs"] = packed["decoder_input_tokens"].tolist()
        (HERE / f"{name.replace('hf_', 'flaxformer_')}.json").write_text(json.dumps(result) + "\n")
        print(f"{name}: {found} as transformers' {record['loss']}; packed {result['loss']}")


if __name__ == "__main__":
    main()
