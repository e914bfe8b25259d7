"""Trains tiny models with real T5X and writes down what it did, for tests/e2e/t5x.rs.

    python make_runs.py --t5x=T5X_CHECKOUT

Made with google-research/t5x cc342d4, jax 0.10.2, flax 0.12.8, optax 0.2.8, seqio 0.0.20,
tensorflow-cpu 2.21, clu 0.0.12, fiddle 0.3.1, orbax-checkpoint 0.12.8, tensorstore 0.1.86 on
CPU in float32. T5X imports `airio` and `jestimator`, which PyPI lacks and these runs do not use:
empty modules stand in for them.

Each run is a folder beside this file:
- examples.jsonl: token ids ending in EOS, random, in the order they are trained on;
- checkpoint_0.tar.gz, checkpoint_6.tar.gz: T5X's own checkpoints, before and after six steps;
- log.json: every step's metrics under T5X's names, each computed before that step's update; and
  for unpacked runs what checkpoint_6 says of the first batch: the scores of its targets and the
  beams (worst to best) with theirs.
  Of decoder-only models: the scores, greedy sequences, and the beams of inputs cut to CUT tokens,
  since T5X's beam search decodes past the end of rows whose prompts are longer than others.
The configurations are in RUNS below and, as a user would write them, beside this file.
"""

import argparse
import gzip
import json
import pathlib
import sys
import tarfile
import tempfile
import types

import numpy as np

HERE = pathlib.Path(__file__).parent
VOCAB_SIZE = 96
EOS_ID = 1
LENGTHS = {"inputs": 24, "targets": 12}
BATCH_SIZE = 4
STEPS = 6
# min_dim_size_to_factor = 32 leaves attention kernels (32 x 16) whole and factors the rest.
DIMS = dict(vocab_size=VOCAB_SIZE, emb_dim=32, num_heads=2, head_dim=8, mlp_dim=64)
CUT = 3
RUNS = {
    # Name to (seed, packed, module, optimizer, loss, schedule).
    "unpacked": dict(
        seed=1, packed=False, num_examples=STEPS * BATCH_SIZE,
        module=dict(mlp_activations=("gelu", "linear"), logits_via_embedding=False),
        optimizer=dict(),
        loss=dict(z_loss=1e-3, label_smoothing=0.05, factor="AVERAGE_PER_SEQUENCE"),
        schedule=dict(factors="constant * rsqrt_decay", base_learning_rate=0.02, warmup_steps=2),
    ),
    "packed": dict(
        seed=2, packed=True, num_examples=90,
        module=dict(mlp_activations=("relu",), logits_via_embedding=True),
        optimizer=dict(beta1=0.9, weight_decay_rate=1e-3),
        loss=dict(z_loss=1e-4, label_smoothing=0.0, factor="NUM_REAL_TARGET_TOKENS"),
        schedule=dict(factors="constant * linear_warmup", base_learning_rate=0.02, warmup_steps=4),
    ),
    # Layers on an axis of their parameters, with a bias each: scalable_t5.
    "scanned": dict(
        scalable=dict(scan_layers=True, remat_policy="minimal"),
        seed=6, packed=False, num_examples=STEPS * BATCH_SIZE,
        module=dict(mlp_activations=("gelu", "linear"), logits_via_embedding=False),
        optimizer=dict(beta1=0.9),
        loss=dict(z_loss=1e-4, label_smoothing=0.0, factor="NUM_REAL_TARGET_TOKENS"),
        schedule=dict(factors="constant * rsqrt_decay", base_learning_rate=0.02, warmup_steps=2),
    ),
    # Two microbatches, whose losses T5X normalizes apart.
    "microbatches": dict(
        num_microbatches=2,
        seed=8, packed=False, num_examples=STEPS * BATCH_SIZE,
        module=dict(mlp_activations=("gelu", "linear"), logits_via_embedding=False),
        adamw=dict(learning_rate=0.01, weight_decay=0.01),
        loss=dict(z_loss=1e-4, label_smoothing=0.0, factor="NUM_REAL_TARGET_TOKENS"),
        schedule=dict(factors="constant", base_learning_rate=0.01, warmup_steps=2),
    ),
    # AdamW, with divided attention scores, and a schedule without effect: contrib/gpu.
    "gpu": dict(
        gpu=dict(scale_attn_logits=True),
        seed=7, packed=False, num_examples=STEPS * BATCH_SIZE,
        module=dict(mlp_activations=("gelu", "linear"), logits_via_embedding=False),
        adamw=dict(learning_rate=0.01, weight_decay=0.01),
        loss=dict(z_loss=1e-4, label_smoothing=0.0, factor=None),
        schedule=dict(
            factors="linear_decay", base_learning_rate=1e-4, warmup_steps=2,
            min_learning_rate=1e-5, decay_factor=0.1),
    ),
    # Inputs are read at once, and only targets count.
    "prefix_lm": dict(
        decoder_only=dict(inputs_bidirectional_attention=True),
        seed=3, packed=False, num_examples=STEPS * BATCH_SIZE, converter="DecoderFeatureConverter",
        module=dict(mlp_activations=("gelu", "linear"), logits_via_embedding=True),
        optimizer=dict(),
        loss=dict(z_loss=1e-4, label_smoothing=0.0, factor="NUM_REAL_TARGET_TOKENS"),
        schedule=dict(factors="constant * rsqrt_decay", base_learning_rate=0.02, warmup_steps=2),
    ),
    # The same with several examples a row, and inputs in the loss.
    "prefix_lm_packed": dict(
        decoder_only=dict(inputs_bidirectional_attention=True),
        seed=4, packed=True, num_examples=90, converter="PrefixLMFeatureConverter",
        converter_options=dict(loss_on_targets_only=False),
        module=dict(mlp_activations=("gelu", "linear"), logits_via_embedding=False),
        optimizer=dict(),
        loss=dict(z_loss=1e-4, label_smoothing=0.1, factor="NUM_REAL_TARGET_TOKENS"),
        schedule=dict(factors="constant * rsqrt_decay", base_learning_rate=0.02, warmup_steps=2),
    ),
    # Targets alone, several examples a row.
    "causal_lm": dict(
        decoder_only=dict(),
        seed=5, packed=True, num_examples=120, converter="DecoderFeatureConverter",
        features=["targets"],
        module=dict(mlp_activations=("relu",), logits_via_embedding=False),
        optimizer=dict(),
        loss=dict(z_loss=1e-3, label_smoothing=0.0, factor="NUM_TOTAL_TARGET_TOKENS"),
        schedule=dict(factors="constant", base_learning_rate=0.01, warmup_steps=2),
    ),
}


def stand_in_for_modules_that_pypi_lacks():
    names = ["airio", "airio.core", "airio.pygrain_common", "jestimator", "jestimator.amos",
             "jestimator.amos_helper"]
    for name in names:
        module = types.ModuleType(name)
        module.__getattr__ = lambda attribute: type(attribute, (), {})
        sys.modules[name] = module
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, module)


def make_examples(seed, count):
    """Random token ids of random length, at least 3 with the EOS."""
    random = np.random.default_rng(seed)

    def feature(length):
        tokens = random.integers(2, VOCAB_SIZE, random.integers(2, length))
        return [*map(int, tokens), EOS_ID]

    return [{name: feature(length) for name, length in LENGTHS.items()} for _ in range(count)]


def make_batches(examples, run):
    import seqio
    import tensorflow as tf

    lengths = {name: LENGTHS[name] for name in run.get("features", LENGTHS)}
    examples = [{name: example[name] for name in lengths} for example in examples]
    signature = {name: tf.TensorSpec([None], tf.int32, name) for name in lengths}
    dataset = tf.data.Dataset.from_generator(lambda: iter(examples), output_signature=signature)
    dataset = seqio.utils.trim_dataset(dataset, lengths, {})
    cls = getattr(seqio, run.get("converter", "EncDecFeatureConverter"))
    converter = cls(
        pack=run["packed"], use_custom_packing_ops=False, **run.get("converter_options", {}))
    dataset = converter(dataset, task_feature_lengths=lengths)
    return list(dataset.batch(BATCH_SIZE, drop_remainder=True).as_numpy_iterator())


def make_model(run):
    import jax.numpy as jnp
    import optax
    import seqio
    from t5x import adafactor, decoding, losses, models, optimizers
    from t5x.contrib.gpu.t5 import network as gpu
    from t5x.examples.decoder_only import network as decoder_only
    from t5x.examples.scalable_t5 import network as scalable
    from t5x.examples.t5 import network as t5

    dims = dict(dtype=jnp.float32, dropout_rate=0.0, **DIMS, **run["module"])
    if "adamw" in run:
        optimizer = optimizers.chain(
            [optax.clip_by_global_norm(max_norm=1.0), optax.adamw(**run["adamw"])])
    else:
        optimizer = adafactor.Adafactor(
            decay_rate=0.8, step_offset=0, min_dim_size_to_factor=32,
            logical_factor_rules=adafactor.standard_logical_factor_rules(), **run["optimizer"])
    vocabulary = seqio.PassThroughVocabulary(size=VOCAB_SIZE, eos_id=EOS_ID)
    loss = run["loss"]
    common = dict(
        optimizer_def=optimizer, z_loss=loss["z_loss"], label_smoothing=loss["label_smoothing"],
        loss_normalizing_factor=(
            loss["factor"] and losses.SpecialLossNormalizingFactor[loss["factor"]]))
    if "decoder_only" in run:
        config = decoder_only.TransformerConfig(num_layers=2, **dims)
        return models.DecoderOnlyModel(
            module=decoder_only.DecoderWrapper(config=config), vocabulary=vocabulary,
            decode_fn=run.get("decode_fn", decoding.temperature_sample),
            **run["decoder_only"], **common)
    networks = {"scalable": scalable, "gpu": gpu}
    [(network, options)] = [
        (network, run[name]) for name, network in networks.items() if name in run
    ] or [(t5, {})]
    config = network.T5Config(
        num_encoder_layers=2, num_decoder_layers=2, **dims, **options)
    return models.EncoderDecoderModel(
        module=network.Transformer(config=config), input_vocabulary=vocabulary,
        output_vocabulary=vocabulary, **common)


def numbers(summary):
    """A step's metrics but its times, as plain numbers."""
    values = {name: getattr(value, "value", value) for name, value in summary.items()}
    return {name: float(np.asarray(value)) for name, value in sorted(values.items())
            if not name.startswith("timing/")}


def pack_up(folder, to):
    """A tar file that is the same for the same content."""
    def anonymous(info):
        info.uid = info.gid = info.mtime = 0
        info.uname = info.gname = ""
        return info

    with gzip.GzipFile(to, "wb", mtime=0) as file, tarfile.open(fileobj=file, mode="w") as tar:
        tar.add(folder, arcname=folder.name, filter=anonymous)


def train(name, run):
    import jax
    from t5x import checkpoints, partitioning, trainer, utils

    examples = make_examples(run["seed"], run["num_examples"])
    batches = make_batches(examples, run)
    assert len(batches) >= STEPS, f"{name}: {len(batches)} batches of {STEPS}"
    model = make_model(run)
    partitioner = partitioning.PjitPartitioner(num_partitions=1)
    initializer = utils.TrainStateInitializer(
        optimizer_def=model.optimizer_def, init_fn=model.get_initial_variables,
        input_shapes={key: value.shape for key, value in batches[0].items()},
        partitioner=partitioner)
    state = initializer.from_scratch(jax.random.PRNGKey(run["seed"]))
    log = {"metrics": []}
    out = HERE / name
    out.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        checkpointer = checkpoints.Checkpointer(state, partitioner, scratch)
        checkpointer.save(state)
        with trainer.Trainer(
            model=model, train_state=state, partitioner=partitioner, eval_names=[],
            summary_dir=None, train_state_axes=initializer.train_state_axes,
            rng=jax.random.PRNGKey(0), num_microbatches=run.get("num_microbatches"),
            learning_rate_fn=utils.create_learning_rate_scheduler(**run["schedule"]),
        ) as loop:
            for batch in batches[:STEPS]:
                summary = loop.train(iter([batch]), 1).result()
                log["metrics"].append(numbers(summary))
            state = loop.train_state
        checkpointer.save(state)
        for step in (0, STEPS):
            folder = pathlib.Path(scratch) / f"checkpoint_{step}"
            pack_up(folder, out / f"checkpoint_{step}.tar.gz")
    if not run["packed"]:
        of_family = decode_prefixes if "decoder_only" in run else decode
        log["decode"] = of_family(run, examples, model, state.params, batches[0])
    (out / "log.json").write_text(json.dumps(log, indent=1) + "\n")
    lines = (json.dumps(example) + "\n" for example in examples)
    (out / "examples.jsonl").write_text("".join(lines))


def decode_prefixes(run, examples, model, params, batch):
    from t5x import decoding

    sequences, aux = model.predict_batch_with_aux(
        params, batch, decoder_params={"temperature": 0.0, "rescale_log_probs": False})
    cut = [example | {"inputs": example["inputs"][:CUT]} for example in examples]
    searching = make_model(run | {"decode_fn": decoding.beam_search})
    beams = decode(run, examples, searching, params, make_batches(cut, run)[0])
    return beams | {
        "score_batch": np.asarray(model.score_batch(params, batch)).tolist(),
        "greedy": np.asarray(sequences).tolist(),
        "greedy_scores": np.asarray(aux["scores"]).tolist()}


def decode(_run, _examples, model, params, batch):
    scores = model.score_batch(params, batch)
    beams, aux = model.predict_batch_with_aux(
        params, batch, num_decodes=4, return_all_decodes=True)
    return {"score_batch": np.asarray(scores).tolist(), "beams": np.asarray(beams).tolist(),
            "beam_scores": np.asarray(aux["scores"]).tolist()}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--t5x", required=True, help="checkout of google-research/t5x")
    parser.add_argument("runs", nargs="*", default=RUNS, help="names of runs, all by default")
    options = parser.parse_args()
    sys.path.insert(0, options.t5x)
    stand_in_for_modules_that_pypi_lacks()
    for name in options.runs:
        train(name, RUNS[name])


if __name__ == "__main__":
    main()
