"""Writes prompt_tuning.json: results of real prompt-tuning with a tiny T5 1.1.

Run as `python prompt_tuning.py T5X FLAXFORMER PROMPT_TUNING > prompt_tuning.json`, with checkouts of google-research/t5x cc342d4,
google/flaxformer 399ea3a and google-research/prompt-tuning 72285ee (jax 0.10.2, flax 0.12.8, optax 0.2.8, seqio 0.0.20,
tensorflow-cpu 2.21, gin-config 0.5.0, CPU, float32). Modules that PyPI lacks, and `flax.optim`, which flax no longer has, are
replaced by empty ones: these models do not use them.

CASES has the gin text of each model, which includes a published file of prompt-tuning and states only the differences. All cases
read the one batch, whose first input tokens name tasks where the model has tasks. `t5` has the parameters of T5 1.1, which are the
same in all cases, and `added` those that the case adds: by their names in the tree below `target`, the shape, the logical axes,
and a seed. The values are half of `noise` of samples.py with that seed, plus 1 where `near_one`; kernels of attention have their
heads joined. All without dropout, each case has:
- encoded: the encoder's result, which includes the prompt's positions; and logits [rows, length, vocabulary];
- the metrics and the loss of T5X's EncoderDecoderModel, a sum over targets: there is no loss_normalizing_factor;
- gradients: of the parameters that the case adds, and of two of T5 1.1; and the norms of all gradients;
- score_batch: the log-likelihood of each row's targets; beams, worst to best, and their scores: from predict_batch.
Cases of BRIEF, whose networks differ from others' in the prompt alone, have the encoder's result, the loss and the gradients of
the parameters that they add. The loss of `wayward` has the distance of the prompt from the rows of discrete_prompt().
Cases of RANKED read the batch `answers` instead, [examples, answers, length], which the model's own feature converter makes of
ANSWERS. They have the score of each answer, the loss, the accuracy, the gradients of the parameters that they add, and predict_batch.
`training` of a case has T5X's Trainer with the file's MultiOptimizer on that batch: the losses without z_loss, each before its
step's update, the state of the optimizer (shapes by name), and the parameters that changed. The multi-task file's expression for
its shared prompt matches no parameter, so only the prompts of tasks change. Arrays are flat, with 7 digits.
"""

import json
import os
import sys
import tempfile
import types
from unittest import mock

os.environ["JAX_PLATFORMS"] = "cpu"


class Absent(types.ModuleType):
    """A module whose names exist and do nothing."""

    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self.content(name)


def stand_in(content, names):
    for name in names:
        sys.modules[name] = Absent(name)
        sys.modules[name].content = content
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, sys.modules[name])


import flax

# Base classes are taken from these modules, and annotations from aqt.
stand_in(lambda name: type(name, (), {}), [
    "airio", "airio.core", "airio.pygrain_common", "jestimator", "jestimator.amos", "jestimator.amos_helper", "flax.optim"])
stand_in(lambda _: mock.MagicMock(), [
    "aqt", "aqt.jax_legacy", "aqt.jax_legacy.jax", "aqt.jax_legacy.jax.flax_layers", "aqt.jax_legacy.jax.quant_config",
    "aqt.jax_legacy.jax.quantization"])
sys.path[:0] = [os.path.abspath(path) for path in sys.argv[1:4]]

import gin
import jax
import jax.numpy as jnp
import numpy as np
import tensorflow as tf
from flax import traverse_util
from prompt_tuning.train import partitioning as prompt_partitioning
from t5x import partitioning, trainer, utils
from samples import noise

PROMPTED = "prompt_tuning/configs/models/t5_1_1_prompt.gin"
EXTENDED = "prompt_tuning/configs/extended/models/"
PERCEPTRON = "prompt_tuning/extended/perceptron/configs/models/"
# The start of each gin text, before the file of the model.
IMPORTS = """
from __gin__ import dynamic_registration
import seqio
from prompt_tuning import prompts
from prompt_tuning.extended import multitask_prompts
from prompt_tuning.extended.train import multitask_prompts as of_tasks
from prompt_tuning.extended.train import per_layer
from prompt_tuning.extended.train import wayward
from prompt_tuning.train import prompts as train_prompts
"""
# The tiny network.
DIMENSIONS = """
NUM_ENCODER_LAYERS = 2
NUM_DECODER_LAYERS = 2
NUM_HEADS = 2
HEAD_DIM = 8
EMBED_DIM = 16
MLP_DIM = 32
NUM_EMBEDDINGS = 64
ACTIVATION_DTYPE = 'float32'
VOCABULARY = @seqio.PassThroughVocabulary()
seqio.PassThroughVocabulary:
  size = 64
  eos_id = 1
"""
PROMPT = "PROMPT_LENGTH = 5\n"
SUFFIX = PROMPT + "train_prompts.Prompt.combine = @train_prompts.suffix_prompt\n"
MULTITASK = PROMPT + "NUM_TASKS = 3\nmultitask_prompts.sentinel_to_task.vocab_size = 64\n"
# Another class than the file's.
OF_TASKS = MULTITASK + """
of_tasks.MultiTaskPrompt.prompt = @multitask_prompts.{name}()
multitask_prompts.{name}:
  num_tasks = 3
  to_task_idx = @multitask_prompts.sentinel_to_task
"""
CONCAT = OF_TASKS.format(name="ConcatMultiTaskPrompt") + "  length = 3\n  task_length = 2\n"
FEATURES = OF_TASKS.format(name="ConcatFeaturesMultiTaskPrompt") + "  length = 5\n  shared_features = 10\n  task_features = 6\n"
PROJECT = OF_TASKS.format(name="ProjectMultiTaskPrompt") + "  length = 5\n  shared_features = 4\n  task_features = 16\n"
DISCRETE_PROMPT = os.path.join(tempfile.mkdtemp(), "prompt.npy")
WAYWARD = PROMPT + f"""
prompt_init/wayward.execute_initializer.init = @prompts.from_array()
prompts.from_array.prompt = @prompts.np_load()
prompts.np_load.path = '{DISCRETE_PROMPT}'
prompts.Prompt.prompt_init = @prompts.from_array()
"""
# Name to the file of the model and what is different.
CASES = {
    "prefix_prompt": (PROMPTED, PROMPT),
    "prefix_prompt_after_bos": (PROMPTED, PROMPT + "train_prompts.Prompt.combine = @train_prompts.prefix_prompt_after_bos\n"),
    "suffix_prompt_before_eos": (PROMPTED, SUFFIX + "train_prompts.suffix_prompt.before_eos = True\n"),
    "suffix_prompt_after_eos": (PROMPTED, SUFFIX + "train_prompts.suffix_prompt.before_eos = False\n"),
    "ia3": (EXTENDED + "ia3_t5_1_1.gin", ""),
    "per_layer_replace": (EXTENDED + "t5_1_1_per_layer_prompt.gin", PROMPT),
    "per_layer_add": (
        EXTENDED + "t5_1_1_per_layer_prompt.gin", PROMPT + "per_layer/train_prompts.Prompt.combine = @per_layer.add_prompt\n"),
    "add_multitask": (EXTENDED + "multi_task_t5_1_1_prompt.gin", MULTITASK),
    "concat_multitask": (EXTENDED + "multi_task_t5_1_1_prompt.gin", CONCAT),
    "concat_features_multitask": (EXTENDED + "multi_task_t5_1_1_prompt.gin", FEATURES),
    "project_multitask": (EXTENDED + "multi_task_t5_1_1_prompt.gin", PROJECT),
    "wayward": (EXTENDED + "wayward_t5_1_1_prompt.gin", WAYWARD),
    "perceptron": (PERCEPTRON + "perceptron_t5_1_1_prompt.gin", PROMPT),
    "cross_entropy": (
        PERCEPTRON + "cross_entropy_t5_1_1_prompt.gin", PROMPT + "LABEL_SMOOTHING = 0.1\nZ_LOSS = 0.01\n"),
}
RANKED = ["perceptron", "cross_entropy"]
# Cases that also train.
TRAINED = ["prefix_prompt", "ia3", "add_multitask"]
BRIEF = ["concat_multitask", "concat_features_multitask", "project_multitask", "wayward"]
LEARNING_RATE, STEPS = 0.3, 3
# The gradients of these parameters of T5 1.1 are kept in full.
OTHERS = ["encoder/layers_0/attention/query/kernel", "decoder/layers_1/encoder_decoder_attention/value/kernel"]
# EOS is 1, padding 0. The first tokens of inputs are the tasks 0, 2 and 1 for a model with tasks.
INPUTS = [[63, 4, 5, 6, 7, 8, 9, 1], [61, 9, 8, 7, 1, 0, 0, 0], [62, 33, 1, 0, 0, 0, 0, 0]]
TARGETS = [[5, 6, 7, 8, 1], [4, 3, 1, 0, 0], [40, 1, 0, 0, 0]]
# Inputs, the answers, and whether each is right, of which there may be two.
ANSWERS = [
    (INPUTS[0], [[5, 6, 7, 8, 1], [9, 1], [33, 34, 1]], [False, True, False]),
    ([9, 8, 7, 1], [[4, 3, 1], [40, 41, 1], [9, 1]], [False, True, False]),
    ([33, 1], [[40, 1], [7, 6, 5, 1], [50, 51, 52, 1]], [False, True, True]),
]


def short(array):
    return [float(f"{float(x):.7g}") for x in np.asarray(array).ravel()]


def flat(tree):
    return traverse_util.flatten_dict(flax.core.unfreeze(tree), sep="/")


def discrete_prompt():
    return noise([5, 16], 7) / 2


def make_batch():
    targets = np.array(TARGETS, np.int32)
    return {
        "encoder_input_tokens": np.array(INPUTS, np.int32),
        "decoder_target_tokens": targets,
        "decoder_input_tokens": np.pad(targets[:, :-1], ((0, 0), (1, 0))),
        "decoder_loss_weights": (targets > 0).astype(np.int32),
    }


def make_answers(model):
    """Converts examples with the model's converter. As tasks of prompt-tuning have them, features are [length, answers]."""
    padded = lambda rows, length: np.array([row + [0] * (length - len(row)) for row in rows], np.int32).T
    examples = [
        {"inputs": padded([inputs] * len(answers), 8), "targets": padded(answers, 5), "is_correct": np.array(is_correct)}
        for inputs, answers, is_correct in ANSWERS]
    dataset = tf.data.Dataset.from_tensor_slices({name: np.stack([it[name] for it in examples]) for name in examples[0]})
    lengths = {"inputs": 8, "targets": 5, "is_correct": 3}
    converted = model.FEATURE_CONVERTER_CLS(pack=False)(dataset, lengths)
    return next(converted.batch(len(examples)).as_numpy_iterator())


def make_model(file, differences):
    gin.clear_config()
    gin.parse_config(f"{IMPORTS}include '{file}'\n{DIMENSIONS}{differences}")
    return gin.query_parameter("%MODEL").scoped_configurable_fn()


def is_added(name):
    """Whether T5 1.1 lacks a parameter."""
    return "prompt" in name or "ia3" in name


def described(variables):
    """The shape, axes and seed of each parameter. A parameter of T5 1.1 has the same seed in all cases."""
    shapes, axes = flat(variables["params"]), flat(variables["params_axes"])
    of_t5, added = (sorted(name for name in shapes if is_added(name) == wanted) for wanted in (False, True))
    seeds = dict([*zip(of_t5, range(1, 1000)), *zip(added, range(1001, 2000))])
    of = lambda name: {
        "shape": list(shapes[name].shape), "axes": list(axes[name + "_axes"].names), "seed": seeds[name],
        "near_one": name.endswith(("/scale", "/ia3_scaling"))}
    return {name: of(name) for name in of_t5}, {name: of(name) for name in added}


def values(parameters):
    of = lambda entry: noise(entry["shape"], entry["seed"]) / 2 + np.float32(entry["near_one"])
    return traverse_util.unflatten_dict({name: of(entry) for name, entry in parameters.items()}, sep="/")


def train(model, params, batch):
    """Trains with T5X's Trainer. A parameter that no optimizer of the MultiOptimizer matches has no state and does not change."""
    rules = partitioning.standard_logical_axis_rules(additional_rules=prompt_partitioning.standard_logical_axis_rules())
    partitioner = partitioning.PjitPartitioner(num_partitions=1, logical_axis_rules=rules)
    initializer = utils.TrainStateInitializer(
        optimizer_def=model.optimizer_def, init_fn=model.get_initial_variables, partitioner=partitioner,
        input_shapes={feature: array.shape for feature, array in batch.items()})
    state = initializer.from_scratch(jax.random.PRNGKey(0)).replace_params(flax.core.freeze(jax.tree.map(jnp.asarray, params)))
    losses = []
    with trainer.Trainer(
        model=model, train_state=state, partitioner=partitioner, eval_names=[], summary_dir=None,
        train_state_axes=initializer.train_state_axes, rng=jax.random.PRNGKey(0), num_microbatches=None,
        learning_rate_fn=utils.create_learning_rate_scheduler(factors="constant", base_learning_rate=LEARNING_RATE),
    ) as loop:
        for _ in range(STEPS):
            summary = loop.train(iter([batch]), 1).result()
            losses.append(float(summary["cross_ent_loss"].value))
        trained = flat(loop.train_state.params)
        of_optimizer = flat(loop.train_state.state_dict()["state"])
    start = flat(params)
    return {
        "learning_rate": LEARNING_RATE,
        "losses": losses,
        "state": {name: list(array.shape) for name, array in sorted(of_optimizer.items()) if array is not None},
        "trained": {
            name: short(array) for name, array in sorted(trained.items()) if not np.array_equal(array, start[name])},
    }


def case(name):
    """Returns the parameters that T5 1.1 has too, and the results of a case."""
    model = make_model(*CASES[name])
    batch = make_answers(model) if name in RANKED else make_batch()
    shapes = {feature: array.shape for feature, array in batch.items()}
    variables = jax.eval_shape(lambda key: model.get_initial_variables(key, shapes), jax.random.PRNGKey(0))
    of_t5, added = described(variables)
    params = values(of_t5 | added)
    loss = lambda params: model.loss_fn(params, batch, dropout_rng=None)
    (value, metrics), gradients = jax.jit(jax.value_and_grad(loss, has_aux=True))(params)
    gradients = flat(gradients)
    if name in RANKED:
        return of_t5, {
            "added": added,
            "scores": short(model._compute_logits(params, batch, None)),
            "loss": float(value),
            "accuracy": float(metrics["accuracy"].compute()),
            "gradients": {name: short(gradients[name]) for name in added},
            "predictions": np.asarray(model.predict_batch(params, batch)).tolist(),
        }
    encoded = model.module.apply(
        {"params": params}, batch["encoder_input_tokens"], enable_dropout=False, method=model.module.encode)
    if name in BRIEF:
        return of_t5, {
            "added": added,
            "encoded": short(encoded),
            "loss": float(value),
            "gradients": {name: short(gradients[name]) for name in added},
        }
    beams, aux = model.predict_batch_with_aux(params, batch, num_decodes=2, return_all_decodes=True)
    norm = lambda array: float(f"{np.linalg.norm(np.asarray(array, np.float64)):.7g}")
    result = {
        "added": added,
        "encoded": short(encoded),
        "logits": short(model._compute_logits(params, batch, None)),
        "loss": float(value),
        "metrics": {
            name: float(metric.compute_value().value) for name, metric in sorted(metrics.items())
            if "timing" not in name and "per_second" not in name},
        "gradients": {name: short(gradients[name]) for name in [*added, *OTHERS]},
        "gradient_norms": {name: norm(gradients[name]) for name in sorted(gradients)},
        "score_batch": short(model.score_batch(params, batch)),
        "beams": np.asarray(beams).tolist(),
        "beam_scores": np.asarray(aux["scores"]).tolist(),
    }
    if name in TRAINED:
        result["training"] = train(model, params, batch)
    return of_t5, result


def main():
    for folder in sys.argv[1:4]:
        gin.add_config_file_search_path(folder)
    np.save(DISCRETE_PROMPT, discrete_prompt())
    of_t5, results = {}, {}
    for name in CASES:
        of_t5, results[name] = case(name)
    listed = lambda batch: {feature: array.astype(int).tolist() for feature, array in batch.items()}
    answers = listed(make_answers(make_model(*CASES[RANKED[0]])))
    print(json.dumps({"batch": listed(make_batch()), "answers": answers, "t5": of_t5, "cases": results}))


if __name__ == "__main__":
    main()
