"""Trains tiny models with real T5X and optax's optimizers and `MultiOptimizer`, for states.rs.

    python make_states.py --t5x=T5X_CHECKOUT [--restore=FOLDER]

Versions, stand-ins and the form of the examples are those of make_runs.py. `states/NAME/` holds the checkpoints that
T5X's own `Checkpointer` wrote after two and after four steps, `states/examples.jsonl` the examples of all runs. With
--restore, nothing is made: T5X restores FOLDER/NAME/checkpoint_4, which another program saved after starting from T5X's
after two steps, and compares the tree with its own.
"""

import argparse
import json
import pathlib
import re
import sys
import tarfile
import tempfile

import make_runs
import numpy as np

HERE = pathlib.Path(__file__).parent / "states"
make_runs.VOCAB_SIZE = 12
make_runs.DIMS = dict(
    vocab_size=12, emb_dim=4, num_heads=1, head_dim=4, mlp_dim=4, num_encoder_layers=1, num_decoder_layers=1,
)
MODULE = dict(mlp_activations=("relu",), logits_via_embedding=True)
STEPS = (2, 4)
BATCH_SIZE = make_runs.BATCH_SIZE


def match(*patterns):
    """What a list of patterns in gin means: one matches the whole path."""
    from flax import traverse_util

    found = lambda path, _: any(re.fullmatch(pattern, path) for pattern in patterns)
    return traverse_util.ModelParamTraversal(found)


def make_optimizers():
    import optax
    from t5x import adafactor, optimizers

    schedule = optax.warmup_cosine_decay_schedule(
        init_value=0.001, peak_value=0.02, warmup_steps=2, decay_steps=6, end_value=0.004)
    rules = adafactor.standard_logical_factor_rules()
    make = lambda **settings: adafactor.Adafactor(min_dim_size_to_factor=4, logical_factor_rules=rules, **settings)
    clip = optax.clip_by_global_norm(0.5)
    return {
        "adam": optimizers.chain([clip, optax.adam(schedule)]),
        "lion": optimizers.lion(0.01, weight_decay=0.1),
        "rmsprop": optimizers.rmsprop(schedule, momentum=0.9, centered=True),
        "multi": optimizers.MultiOptimizer([
            (match(".*/mlp/.*"), make()),
            (match(".*/scale", "/token_embedder/.*"), make(beta1=0.5, multiply_by_parameter_scale=False)),
        ]),
    }


def make_model(optimizer):
    import jax.numpy as jnp
    import seqio
    from t5x import models
    from t5x.examples.t5 import network

    config = network.T5Config(dtype=jnp.float32, dropout_rate=0.0, **make_runs.DIMS, **MODULE)
    vocabulary = seqio.PassThroughVocabulary(size=make_runs.VOCAB_SIZE, eos_id=make_runs.EOS_ID)
    return models.EncoderDecoderModel(
        module=network.Transformer(config=config), optimizer_def=optimizer,
        input_vocabulary=vocabulary, output_vocabulary=vocabulary)


def start(optimizer, batch):
    """A model with its fresh training state."""
    import jax
    from t5x import partitioning, utils

    model, partitioner = make_model(optimizer), partitioning.PjitPartitioner(num_partitions=1)
    initializer = utils.TrainStateInitializer(
        optimizer_def=model.optimizer_def, init_fn=model.get_initial_variables,
        input_shapes={key: value.shape for key, value in batch.items()}, partitioner=partitioner)
    return model, partitioner, initializer, initializer.from_scratch(jax.random.PRNGKey(3))


def train(name, optimizer, batches):
    import jax
    from t5x import checkpoints, trainer, utils

    model, partitioner, initializer, state = start(optimizer, batches[0])
    (HERE / name).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, trainer.Trainer(
        model=model, train_state=state, partitioner=partitioner, eval_names=[], summary_dir=None,
        train_state_axes=initializer.train_state_axes, rng=jax.random.PRNGKey(0), num_microbatches=None,
        learning_rate_fn=utils.create_learning_rate_scheduler(factors="constant", base_learning_rate=0.1),
    ) as loop:
        for step, batch in enumerate(batches, 1):
            loop.train(iter([batch]), 1).result()
            if step in STEPS:
                checkpoints.Checkpointer(loop.train_state, partitioner, scratch).save(loop.train_state)
                folder = pathlib.Path(scratch) / f"checkpoint_{step}"
                make_runs.pack_up(folder, HERE / name / f"checkpoint_{step}.tar.gz")


def restore(name, optimizer, batches, folder):
    from flax import traverse_util
    from t5x import checkpoints

    _, partitioner, _, state = start(optimizer, batches[0])
    step = STEPS[-1]

    def tree(folder):
        restored = checkpoints.Checkpointer(state, partitioner, str(folder)).restore(step=step)
        return traverse_util.flatten_dict(restored.state_dict(), sep="/")

    with tempfile.TemporaryDirectory() as scratch:
        with tarfile.open(HERE / name / f"checkpoint_{step}.tar.gz") as tar:
            tar.extractall(scratch)
        expected = tree(scratch)
    found = tree(folder / name)
    assert list(found) == list(expected), f"{name}: {set(found) ^ set(expected)}"
    for array, values in expected.items():
        if values is None:
            assert found[array] is None, f"{name}: {array}"
            continue
        found_values, values = np.asarray(found[array]), np.asarray(values)
        assert (found_values.dtype, found_values.shape) == (values.dtype, values.shape), f"{name}: {array}"
        error = np.linalg.norm(found_values - values)
        assert error <= 1e-4 * np.linalg.norm(values), f"{name}: {array} differs by {error}"
    print(f"{name}: T5X restores {len(found)} arrays")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--t5x", required=True, help="checkout of google-research/t5x")
    parser.add_argument("--restore", type=pathlib.Path, help="folder of the checkpoints to restore")
    arguments = parser.parse_args()
    sys.path.insert(0, arguments.t5x)
    make_runs.stand_in_for_modules_that_pypi_lacks()
    examples = make_runs.make_examples(5, STEPS[-1] * BATCH_SIZE)
    batches = make_runs.make_batches(examples, dict(packed=False))
    for name, optimizer in make_optimizers().items():
        if arguments.restore:
            restore(name, optimizer, batches, arguments.restore)
        else:
            train(name, optimizer, batches)
    if not arguments.restore:
        (HERE / "examples.jsonl").write_text("".join(json.dumps(example) + "\n" for example in examples))


if __name__ == "__main__":
    main()
