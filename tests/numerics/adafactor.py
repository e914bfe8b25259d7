"""Writes adafactor.json: what T5X's own Adafactor makes of a few steps, for adafactor.rs.

Run with T5X at cc342d4 checked out: `python adafactor.py T5X_DIR > adafactor.json`
(jax 0.10.2, flax 0.12.8, numpy 2.x, absl-py 2.5, CPU, float32, op by op).
`t5x/adafactor.py` runs as it is; of the two T5X modules that it imports only the three names it uses
are stood in for, so that nothing else of T5X needs to import.
Parameters and gradients come from `noise` of samples.py, which adafactor.rs has too. Of each array
about 8 elements are kept, evenly spaced, with its root mean square.
"""

import json
import os
import pathlib
import sys
import types

os.environ["JAX_PLATFORMS"] = "cpu"
import flax
import jax.numpy as jnp
import numpy as np
from flax import struct, traverse_util
from samples import noise, sample

MATRICES = {
    "wide": [[128, 192], ["embed", "mlp"]],
    "tall": [[192, 130], ["vocab", "embed"]],
    "square": [[128, 128], ["embed", "joined_kv"]],
    "small": [[16, 24], ["embed", "mlp"]],
    "scale": [[64], ["embed"]],
    "scalar": [[], []],
}
STACKED = {
    "kernel": [[16, 4, 24], ["embed", "layers", "mlp"]],
    "query": [[64, 8, 16], ["embed", "heads", "kv"]],
    "scale": [[32, 4], ["embed", "layers"]],
    "bias": [[8, 4, 6], ["heads", "layers", "relpos_buckets"]],
}
CASES = [
    ["defaults", {}, MATRICES],
    ["momentum", {"beta1": 0.9, "multiply_by_parameter_scale": False}, MATRICES],
    ["no_clipping", {"clipping_threshold": None, "decay_rate": 0.5}, MATRICES],
    ["tight_clipping", {"clipping_threshold": 0.25, "epsilon1": 1e-3}, MATRICES],
    ["weight_decay", {"weight_decay_rate": 0.01, "max_parameter_scale": 0.02}, MATRICES],
    ["lr_weight_decay", {"weight_decay_rate": 0.5, "weight_decay_rate_lr_exponent": 2.0}, MATRICES],
    ["only_lr_weight_decay", {"weight_decay_rate_lr_exponent": 1.0}, MATRICES],
    ["global_norm", {"global_norm_clip_threshold": 0.5}, MATRICES],
    ["step_offset", {"step_offset": 1000}, MATRICES],
    ["unfactored", {"factored": False}, MATRICES],
    ["small_factored", {"min_dim_size_to_factor": 8, "epsilon2": 0.5}, MATRICES],
    ["skip_nan", {"skip_nan_updates": True, "beta1": 0.5}, MATRICES],
    ["stacked", {}, STACKED],
    ["late", {"decay_rate": 0.9}, MATRICES],
    ["stacked_momentum", {"beta1": 0.9, "weight_decay_rate": 0.1}, STACKED],
]
LEARNING_RATES = [0.01, 0.02, 0.005, 0.3]
GRADIENT_SCALES = [1.0, 10.0, 0.1, 3.0]


def load_adafactor(root):
    @struct.dataclass
    class OptimizerState:
        step: jnp.ndarray
        param_states: dict

    class OptimizerDef:
        def __init__(self, hyper_params):
            self.hyper_params = hyper_params

    flat = lambda tree: traverse_util.flatten_dict(flax.core.unfreeze(tree), sep="/")
    t5x, optimizers = types.ModuleType("t5x"), types.ModuleType("t5x.optimizers")
    t5x.utils = types.SimpleNamespace(flatten_dict_string_keys=flat)
    optimizers.OptimizerDef, optimizers.OptimizerState = OptimizerDef, OptimizerState
    module = types.ModuleType("t5x.adafactor")
    sys.modules.update({"t5x": t5x, "t5x.optimizers": optimizers, "t5x.adafactor": module})
    exec((pathlib.Path(root) / "t5x/adafactor.py").read_text(), module.__dict__)
    return module


def run(module, settings, params, first):
    optimizer = module.Adafactor(**settings)
    shapes = {name: shape for name, (shape, _) in params.items()}
    axes = {name: types.SimpleNamespace(names=tuple(a)) for name, (_, a) in params.items()}
    if params is STACKED:
        # T5X passes a tree of PartitionSpecs, which are leaves; the rules see their names.
        rules = module.standard_logical_factor_rules()
        optimizer.hyper_params = optimizer.hyper_params.replace(logical_factor_rules=rules)
        from jax.sharding import PartitionSpec

        optimizer.set_param_axes({name: PartitionSpec(*axes[name].names) for name in axes})
    weights = {name: jnp.asarray(noise(shape, i)) for i, (name, shape) in enumerate(shapes.items())}
    state = optimizer.init_state(weights).replace(step=jnp.int32(first))
    steps = []
    for step, (rate, scale) in enumerate(zip(LEARNING_RATES, GRADIENT_SCALES)):
        grads = {}
        for i, (name, shape) in enumerate(shapes.items()):
            grad = noise(shape, 100 * (step + 1) + i) * np.float32(scale)
            if "skip_nan_updates" in settings and step == 2 and shape:
                grad.reshape(-1)[5] = np.nan
            grads[name] = jnp.asarray(grad)
        hyper = optimizer.hyper_params.replace(learning_rate=jnp.float32(rate))
        weights, state = optimizer.apply_gradient(hyper, weights, state, grads)
        record = {}
        for name in weights:
            record[name] = sample(weights[name], 9)
            for slot in ("m", "v", "v_col", "v_row"):
                array = getattr(state.param_states[name], slot)
                if array.shape != (1,):
                    record[f"{name}/{slot}"] = sample(array, 9)
        steps.append(record)
    return steps


def main():
    module = load_adafactor(sys.argv[1])
    cases = []
    for name, settings, params in CASES:
        first = 1_000_000 if name == "late" else settings.get("step_offset", 0)
        case = {"name": name, "first_step": first, "settings": settings, "params": params}
        cases.append(case | {"steps": run(module, settings, params, first)})
    text = json.dumps({"learning_rates": LEARNING_RATES, "gradient_scales": GRADIENT_SCALES, "cases": cases})
    print(text.replace(" ", ""))


main()
