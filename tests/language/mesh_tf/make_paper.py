"""Writes paper.json: the values with an effect of the T5 paper's operative configurations.

    pip install gin-config
    git clone https://github.com/yurakuratov/t5-experiments  (at 2bdcc0b)
    python make_paper.py t5-experiments/experiments_from_t5_repo

gin-config parses the files; the values that follow from others (batches, microbatches, lengths of spans) are computed
here from their definitions in mesh `transformer/utils.py` and t5 `data/preprocessors.py`. `base` has the values of
most files, each other file what differs. A file that gin-config cannot parse is named with the line of the error.
"""
import json
import os
import re
import sys
from collections import Counter

from gin import config_parser

DATA = ["denoise", "noise_token", "random_spans", "rate_", "reduce_concat", "regular_noise", "select_random",
        "split_tokens", "take", "unsupervised"]

DEFAULTS = {
    "rate_num_examples.maximum": None,
    "rate_num_examples.scale": 1.0,
    "rate_num_examples.temperature": 1.0,
    "reduce_concat_tokens.batch_size": 128,
    "reduce_concat_tokens.feature_key": "targets",
    "select_random_chunk.feature_key": "targets",
    "split_tokens.feature_key": "targets",
    "split_tokens.min_tokens_per_segment": None,
    "noise_token_to_random_token.num_reserved_tokens": 3,
}


class Names(config_parser.ParserDelegate):
    def configurable_reference(self, name, evaluate):
        return "@" + name + ("()" if evaluate else "")

    def macro(self, name):
        return "%" + name


def read(path):
    with open(path) as file:
        statements = list(config_parser.ConfigParser(file.read(), Names()))
    bound = {}
    for statement in statements:
        if isinstance(statement, config_parser.BindingStatement):
            scope = statement.scope + "/" if statement.scope else ""
            argument = "." + statement.arg_name if statement.arg_name else ""
            bound[scope + statement.selector + argument] = statement.value
    return bound


def resolved(value, bound):
    while isinstance(value, str) and value.startswith("%") and value[1:] in bound:
        value = bound[value[1:]]
    if isinstance(value, dict):
        return {key: resolved(item, bound) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [resolved(item, bound) for item in value]
    return value


def span_lengths(bound):
    """t5 `preprocessors.random_spans_helper`."""
    inputs_length = bound["random_spans_helper.inputs_length"]
    density = bound["random_spans_helper.noise_density"]
    mean = bound["random_spans_helper.mean_noise_span_length"]

    def lengths(tokens):
        noise = int(round(tokens * density))
        spans = int(round(noise / mean))
        return tokens - noise + spans + 1, noise + spans + 1

    tokens = inputs_length
    while lengths(tokens + 1)[0] <= inputs_length:
        tokens += 1
    return tokens, lengths(tokens)[1]


def sizes(bound, out):
    lengths = bound["run.sequence_length"]
    if lengths["targets"] == "@preprocessors.random_spans_targets_length()":
        lengths["targets"] = span_lengths(bound)[1]
    out["lengths"] = [lengths["inputs"], lengths["targets"]]
    longest = max(lengths.values())
    method, tokens = bound["run.batch_size"]
    assert method == "tokens_per_batch" and tokens % longest == 0
    out["batch"] = tokens // longest
    rows = max(1, bound["serialize_num_microbatches.tokens_per_microbatch_per_replica"] // longest)
    while out["batch"] % rows:
        rows -= 1
    # One device holds the whole batch.
    out["microbatches"] = out["batch"] // rows


def model(bound, out):
    is_lm = bound["run.model_type"] == "lm"
    stack = "" if is_lm else "decoder/"
    out["model"] = "lm" if is_lm else "bitransformer"
    out["emb_dim"] = bound[stack + "Unitransformer.d_model"]
    out["mlp_dim"] = bound[stack + "DenseReluDense.hidden_size"]
    out["num_heads"] = bound[stack + "SelfAttention.num_heads"]
    out["head_dim"] = bound[stack + "SelfAttention.key_value_size"]
    out["num_layers"] = bound[stack + "make_layer_stack.num_layers"]
    out["dropout_rate"] = bound[stack + "LayerStack.dropout_rate"]
    out["z_loss"] = bound[stack + "Unitransformer.z_loss"]
    out["input_full_attention"] = bound[stack + "Unitransformer.input_full_attention"]
    out["shared"] = bound.get("make_bitransformer.encoder_name") == "decoder"
    layers = bound[stack + "make_layer_stack.layers"]
    has_adapter = any(isinstance(layer, list) and layer[0] == "task_adapter" for layer in layers)
    out["adapter_dim"] = bound["task_adapter/DenseReluDense.hidden_size"] if has_adapter else None


def schedule(bound, out):
    name = bound["run.learning_rate_schedule"].rsplit(".", 1)[-1]
    if name == "constant_learning_rate":
        out["learning_rate"] = ["constant", bound["constant_learning_rate.learning_rate"]]
    else:
        noam = "learning_rate_schedule_noam."
        assert bound[noam + "linear_decay_fraction"] == 0.0
        values = [bound[noam + part] for part in ["multiplier", "warmup_steps", "offset"]]
        out["learning_rate"] = ["noam"] + values


def data(bound, out):
    """The bindings of tasks, by names without modules; the lengths of spans are in `lengths`."""
    for key, value in bound.items():
        is_task = any(key.startswith(prefix) for prefix in DATA)
        if not is_task or "/" in key or key.startswith("random_spans_helper") or DEFAULTS.get(key, "-") == value:
            continue
        out[key] = [short(item) for item in value] if isinstance(value, list) else short(value)


def short(item):
    is_reference = isinstance(item, str) and item.startswith("@")
    return "@" + item.rsplit(".", 1)[-1].lstrip("@") if is_reference else item


def effective(bound):
    out = {}
    out["mixture"] = bound["mesh_train_dataset_fn.mixture_or_task_name"]
    out["steps"] = bound["run.train_steps"]
    out["save_period"] = bound["run.save_checkpoints_steps"]
    out["variable_filter"] = bound["run.variable_filter"]
    out["restores"] = "tpu_estimator_model_fn.init_checkpoint" in bound
    sizes(bound, out)
    model(bound, out)
    schedule(bound, out)
    data(bound, out)
    return out


def main(folder):
    runs, malformed = {}, {}
    for path, _, files in sorted(os.walk(folder)):
        if "operative_config.gin" not in files:
            continue
        name = os.path.relpath(path, folder)
        try:
            bound = read(os.path.join(path, "operative_config.gin"))
        except Exception as error:
            malformed[name] = int(re.search(r"line (\d+)", str(error)).group(1))
            continue
        runs[name] = effective({key: resolved(value, bound) for key, value in bound.items()})
    counts = Counter((key, json.dumps(value)) for run in runs.values() for key, value in run.items())
    base = {key: json.loads(value) for (key, value), n in counts.items() if n > len(runs) / 2}
    differing = {
        name: {key: run.get(key) for key in sorted(base | run) if run.get(key, "-") != base.get(key, "-")}
        for name, run in runs.items()
    }
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "paper.json"), "w") as file:
        lines = [f'"base": {json.dumps(base, sort_keys=True)}', f'"malformed": {json.dumps(malformed)}']
        inner = [f"{json.dumps(name)}: {json.dumps(run, sort_keys=True)}" for name, run in differing.items()]
        file.write("{\n" + ",\n".join(lines) + ',\n"runs": {\n' + ",\n".join(inner) + "\n}}\n")


main(sys.argv[1])
