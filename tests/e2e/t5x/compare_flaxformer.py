"""Compares real flaxformer with T5X's network: its published gin files with tiny dimensions, from checkpoint_0 of the runs
`unpacked` (T5 1.1) and `packed` (T5 1.0), have the parameters, the metrics of all steps, and the result of these runs. So
`tests/e2e/t5x` compares Gimlet's flaxformer modules with the same files.

    python compare_flaxformer.py --t5x=T5X_CHECKOUT --flaxformer=FLAXFORMER_CHECKOUT

Checked with google/flaxformer 399ea3a and the versions of make_runs.py, with gin-config 0.5.0. flaxformer imports `aqt`, whose
version of that time PyPI lacks and these models do not use: an empty module stands in for it.
"""

import argparse
import os
import pathlib
import sys
import tarfile
import tempfile
import types

import numpy as np

import make_runs

MODELS = {"unpacked": "t5_1_1_base", "packed": "t5_base"}
METRICS_TOLERANCE = 1e-5


def stand_in_for_aqt():
    names = ["aqt", "aqt.jax_legacy", "aqt.jax_legacy.jax", "aqt.jax_legacy.jax.flax_layers",
             "aqt.jax_legacy.jax.quant_config", "aqt.jax_legacy.jax.quantization"]
    for name in names:
        module = types.ModuleType(name)
        options = {"WeightParams": object, "ActHParams": object}
        module.__getattr__ = lambda attribute: type(attribute, (), options)
        module.__path__ = []
        sys.modules[name] = module
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, module)


def module_of(name):
    """The network that flaxformer's gin file of that name describes, with the dimensions of make_runs.py."""
    import gin

    dims = make_runs.DIMS
    macros = {
        "NUM_ENCODER_LAYERS": 2, "NUM_DECODER_LAYERS": 2, "NUM_HEADS": dims["num_heads"],
        "HEAD_DIM": dims["head_dim"], "EMBED_DIM": dims["emb_dim"], "MLP_DIM": dims["mlp_dim"],
        "NUM_EMBEDDINGS": dims["vocab_size"], "ACTIVATION_DTYPE": "'float32'"}
    gin.clear_config()
    gin.parse_config_files_and_bindings(
        [f"flaxformer/t5x/configs/t5/models/{name}.gin"],
        [f"{macro} = {value}" for macro, value in macros.items()])
    return gin.query_parameter("%ARCHITECTURE").scoped_configurable_fn()


def compare(name):
    import jax
    from flax import traverse_util
    from t5x import checkpoints, partitioning, trainer, utils

    run = make_runs.RUNS[name]
    batches = make_runs.make_batches(make_runs.make_examples(run["seed"], run["num_examples"]), run)
    model = make_runs.make_model(run)
    model.module = module_of(MODELS[name])
    partitioner = partitioning.PjitPartitioner(num_partitions=1)
    initializer = utils.TrainStateInitializer(
        optimizer_def=model.optimizer_def, init_fn=model.get_initial_variables,
        input_shapes={key: value.shape for key, value in batches[0].items()},
        partitioner=partitioner)
    state = initializer.from_scratch(jax.random.PRNGKey(run["seed"]))
    log = make_runs.json.loads((make_runs.HERE / name / "log.json").read_text())
    worst = 0.0
    with tempfile.TemporaryDirectory() as scratch:
        for step in (0, make_runs.STEPS):
            with tarfile.open(make_runs.HERE / name / f"checkpoint_{step}.tar.gz") as tar:
                tar.extractall(scratch, filter="data")
        checkpointer = checkpoints.Checkpointer(state, partitioner, scratch)
        # Fails if a parameter of either network is not in the other.
        state = checkpointer.restore(path=str(pathlib.Path(scratch) / "checkpoint_0"))
        end = checkpointer.restore(path=str(pathlib.Path(scratch) / f"checkpoint_{make_runs.STEPS}"))
        with trainer.Trainer(
            model=model, train_state=state, partitioner=partitioner, eval_names=[],
            summary_dir=None, train_state_axes=initializer.train_state_axes,
            rng=jax.random.PRNGKey(0), num_microbatches=None,
            learning_rate_fn=utils.create_learning_rate_scheduler(**run["schedule"]),
        ) as loop:
            for batch, expected in zip(batches, log["metrics"]):
                found = make_runs.numbers(loop.train(iter([batch]), 1).result())
                assert found.keys() == expected.keys(), f"{name}: {found.keys()}"
                errors = [abs(found[key] - expected[key]) / max(abs(expected[key]), 1e-9) for key in found]
                worst = max(worst, *errors)
            state = loop.train_state
    assert worst < METRICS_TOLERANCE, f"{name}: metrics differ by {worst}"
    flat = [traverse_util.flatten_dict(tree, sep="/") for tree in (state.params, end.params)]
    assert flat[0].keys() == flat[1].keys()
    norms = [np.linalg.norm(flat[0][key] - flat[1][key]) / np.linalg.norm(flat[1][key]) for key in flat[0]]
    print(f"{name}: {len(norms)} parameters; metrics within {worst:.1e}, arrays within {max(norms):.1e} of T5X's")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--t5x", required=True, help="checkout of google-research/t5x")
    parser.add_argument("--flaxformer", required=True, help="checkout of google/flaxformer")
    options = parser.parse_args()
    sys.path[:0] = [os.path.abspath(path) for path in (options.t5x, options.flaxformer)]
    make_runs.stand_in_for_modules_that_pypi_lacks()
    stand_in_for_aqt()
    os.chdir(options.flaxformer)  # gin-config finds included files there
    for name in MODELS:
        compare(name)


if __name__ == "__main__":
    main()
