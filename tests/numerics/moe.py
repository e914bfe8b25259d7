"""Writes moe.json: results, losses of routers and gradients of flaxformer's mixture of experts, for moe.rs.

Run as `python moe.py FLAXFORMER > moe.json`, with a checkout of google/flaxformer (jax 0.10.2, flax 0.12.8, CPU, float32).
Modules that are not installed and that these layers do not use (aqt) are replaced by empty ones. Parameters and inputs come
from `noise` of samples.py, each with the seed that its place in the sorted names gives; arrays have 7 digits.
"""

import json
import os
import sys
import types
from unittest import mock

os.environ["JAX_PLATFORMS"] = "cpu"


class Absent(types.ModuleType):
    """A module whose names exist and do nothing."""

    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return mock.MagicMock()


for name in ["aqt", "aqt.jax_legacy", "aqt.jax_legacy.jax"]:
    sys.modules[name] = Absent(name)
for name in ["flax_layers", "quantization", "quant_config"]:
    sys.modules[f"aqt.jax_legacy.jax.{name}"] = Absent(name)
sys.path.insert(0, sys.argv[1])

import functools

import jax
import jax.numpy as jnp
from flax import linen as nn
from flax import traverse_util
from flaxformer.architectures.moe import moe_architecture, moe_enums, moe_layers, routing
from flaxformer.architectures.t5 import t5_architecture
from flaxformer.components import dense, embedding, layer_norm, relative_position_biases
from flaxformer.components.attention import dense_attention
from samples import noise, sample

NAMES = ["auxiliary_loss", "router_z_loss", "fraction_tokens_left_behind", "expert_usage", "router_confidence"]
EMBED, MLP, EXPERTS = 6, 5, 4
# The weights of the two losses of routers in what is differentiated.
FACTORS = [0.3, 0.2]
# Shape of the inputs, router, its parameters, parameters of the layer, and whether the pass is one of training.
CASES = {
    "masked_top_2": [(4, 8), "TokensChooseMaskedRouter", {"num_selected_experts": 2, "batch_prioritized_routing": True}, {}, True],
    "masked_top_1_in_order": [(4, 8), "TokensChooseMaskedRouter", {"num_selected_experts": 1, "batch_prioritized_routing": False}, {"train_capacity_factor": 1.5}, True],
    "masked_without_padding": [(4, 8), "TokensChooseMaskedRouter", {"num_selected_experts": 2, "batch_prioritized_routing": False, "ignore_padding_tokens": True}, {}, True],
    "scatter_with_padding": [(4, 8), "TokensChooseScatterRouter", {"num_selected_experts": 2, "batch_prioritized_routing": True, "ignore_padding_tokens": True}, {}, True],
    "experts_choose": [(4, 8), "ExpertsChooseMaskedRouter", {}, {"train_capacity_factor": 2.0}, True],
    "one_group_of_evaluation": [(3, 3), "TokensChooseMaskedRouter", {"num_selected_experts": 1, "batch_prioritized_routing": False}, {"min_expert_capacity": 2}, False],
    "biased_scores": [(4, 4), "TokensChooseMaskedRouter", {"num_selected_experts": 3, "batch_prioritized_routing": True}, {"use_bias": True}, True],
}
PADDED = ["masked_without_padding", "scatter_with_padding"]


def short(array):
    return [float(f"{float(x):.7g}") for x in jnp.ravel(array)]


def filled(tree):
    """A tree with noise in its places, and scales near 1."""
    flat = traverse_util.flatten_dict(tree, sep="/")
    value = lambda name, seed: noise(flat[name].shape, seed) + (1 if name.endswith("scale") else 0)
    return traverse_util.unflatten_dict({name: value(name, seed) for seed, name in enumerate(sorted(flat), 1)}, sep="/")


def reports(state):
    """The mean over layers of what they report, in the order of NAMES."""
    flat = traverse_util.flatten_dict(state["intermediates"])
    of = lambda name: [jnp.mean(jnp.asarray(value)) for path, value in flat.items() if path[-1] == name]
    return jnp.stack([sum(of(name)) / len(of(name)) for name in NAMES])


def router(kind, use_bias=False, **options):
    options = {"jitter_noise": 0.0, "dtype": jnp.float32, "ignore_padding_tokens": False} | options
    weights = routing.RouterWeights(use_bias=use_bias, dtype=jnp.float32)
    return getattr(routing, kind)(router_weights=weights, **options)


def mlp(activations=("gelu", "linear")):
    return dense.MlpBlock(
        use_bias=False, intermediate_dim=MLP, activations=activations, intermediate_dropout_rate=0.0,
        final_dropout_rate=0.0, dtype=jnp.float32)


def moe(router, **options):
    options = {"train_capacity_factor": 1.0, "eval_capacity_factor": 2.0, "min_expert_capacity": 1} | options
    return moe_layers.MoeLayer(
        num_experts=EXPERTS, max_group_size=16, expert=mlp(), router=router, num_expert_partitions=EXPERTS,
        num_model_partitions=1, dtype=jnp.float32, **options)


def layer_case(name):
    shape, kind, of_router, of_layer, training = CASES[name]
    of_layer = dict(of_layer)
    layer = moe(router(kind, use_bias=of_layer.pop("use_bias", False), **of_router), **of_layer)
    inputs = jnp.asarray(noise((*shape, EMBED), 100)) * 4
    if name in PADDED:
        inputs = inputs.at[:, 6:].set(0.0)
    weights = jnp.asarray(noise(inputs.shape, 101))
    apply = functools.partial(layer.apply, mutable=["intermediates"], enable_dropout=training)
    init = functools.partial(layer.init, enable_dropout=False)
    params = filled(jax.eval_shape(init, jax.random.PRNGKey(0), inputs)["params"])

    def loss(params, inputs):
        outputs, state = apply({"params": params}, inputs)
        report = reports(state)
        return jnp.sum(outputs * weights) + FACTORS[0] * report[0] + FACTORS[1] * report[1], (outputs, report)

    (_, (outputs, report)), gradients = jax.jit(jax.value_and_grad(loss, argnums=(0, 1), has_aux=True))(params, inputs)
    of_params = traverse_util.flatten_dict(gradients[0], sep="/")
    return {
        "outputs": short(outputs), "report": short(report), "of_inputs": short(gradients[1]),
        "gradients": {name: short(of_params[name]) for name in sorted(of_params)},
    }


def network():
    """An encoder-decoder of two layers each, of which the second has experts and a dense block after them."""
    attention = lambda: dense_attention.MultiHeadDotProductAttention(
        num_heads=2, dtype=jnp.float32, head_dim=4, use_bias=False, dropout_rate=0.0)
    dropout = lambda: nn.Dropout(rate=0.0, broadcast_dims=(-2,))
    norm = lambda: layer_norm.T5LayerNorm(dtype=jnp.float32)
    bias = lambda: relative_position_biases.RelativePositionBiases(
        num_heads=2, dtype=jnp.float32, num_buckets=32, max_distance=128,
        embedding_init=nn.initializers.ones)
    options = dict(dropout_factory=dropout, layer_norm_factory=norm)
    top_2 = lambda prioritized: moe(
        router("TokensChooseMaskedRouter", num_selected_experts=2, batch_prioritized_routing=prioritized))
    encoder_layer = lambda shared_relative_position_bias: t5_architecture.EncoderLayer(
        attention=attention(), mlp=mlp(), shared_relative_position_bias=shared_relative_position_bias, **options)
    sparse_encoder_layer = lambda shared_relative_position_bias: moe_architecture.SparseEncoderLayer(
        attention=attention(), mlp=top_2(True), extra_mlp=mlp(),
        shared_relative_position_bias=shared_relative_position_bias, **options)
    decoder_layer = lambda shared_relative_position_bias: t5_architecture.DecoderLayer(
        self_attention=attention(), encoder_decoder_attention=attention(), mlp=mlp(),
        shared_relative_position_bias=shared_relative_position_bias, **options)
    sparse_decoder_layer = lambda shared_relative_position_bias: moe_architecture.SparseDecoderLayer(
        self_attention=attention(), encoder_decoder_attention=attention(), mlp=top_2(False), extra_mlp=mlp(),
        shared_relative_position_bias=shared_relative_position_bias, **options)
    options_of_stack = dict(
        num_layers=2, num_sparse_layers=1, sparse_layout=moe_enums.LayerLayout.MIXED, layer_norm_factory=norm,
        shared_relative_position_bias_factory=bias, dtype=jnp.float32)

    def encoder(shared_token_embedder, spmd_annotations=None):
        return moe_architecture.SparseEncoder(
            layer_factory=encoder_layer, sparse_layer_factory=sparse_encoder_layer, input_dropout_factory=dropout,
            output_dropout_factory=dropout, shared_token_embedder=shared_token_embedder, **options_of_stack)

    def decoder(shared_token_embedder, spmd_annotations=None):
        logits = lambda: dense.DenseGeneral(features=16, use_bias=False, dtype=jnp.float32)
        return moe_architecture.SparseDecoder(
            layer_factory=decoder_layer, sparse_layer_factory=sparse_decoder_layer, dropout_factory=dropout,
            output_logits_factory=logits, shared_token_embedder=shared_token_embedder, **options_of_stack)

    embed = lambda: embedding.Embed(
        num_embeddings=16, features=EMBED, cast_input_dtype=jnp.int32, dtype=jnp.float32, attend_dtype=jnp.float32,
        embedding_init=nn.initializers.ones, one_hot=True, name="token_embedder")
    module = t5_architecture.EncoderDecoder(
        encoder_factory=encoder, decoder_factory=decoder, shared_token_embedder_factory=embed, dtype=jnp.float32)
    inputs = jnp.array([[3, 4, 5, 6, 7, 1, 0, 0], [9, 8, 7, 1, 0, 0, 0, 0]])
    targets = jnp.array([[5, 6, 7, 8, 9, 1], [4, 3, 1, 0, 0, 0]])
    shifted = jnp.pad(targets[:, :-1], ((0, 0), (1, 0)))
    tokens = (inputs, shifted, targets)
    init = functools.partial(module.init, enable_dropout=False)
    params = filled(jax.eval_shape(init, jax.random.PRNGKey(0), *tokens)["params"])

    def loss(params):
        logits, state = module.apply({"params": params}, *tokens, mutable=["intermediates"], enable_dropout=True)
        report, real = reports(state), targets > 0
        picked = jnp.take_along_axis(jax.nn.log_softmax(logits), targets[..., None], -1)[..., 0]
        of_targets = -jnp.sum(picked * real) / jnp.sum(real)
        return of_targets + FACTORS[0] * report[0] + FACTORS[1] * report[1], report

    (value, report), gradients = jax.jit(jax.value_and_grad(loss, has_aux=True))(params)
    flat = traverse_util.flatten_dict(gradients, sep="/")
    return {
        "loss": float(value), "report": short(report),
        "gradients": {name: sample(flat[name], 7) for name in sorted(flat)},
    }


print(json.dumps({"layers": {name: layer_case(name) for name in CASES}, "network": network()}, indent=None))
