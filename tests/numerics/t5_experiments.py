"""Writes t5_experiments.json, bert.json and data/t5_experiments/: what t5-experiments' T5 and BERT compute, for
t5_experiments.rs and bert.rs.

Run as `python t5_experiments.py RUN`, where the folder RUN holds what was saved of real models of yurakuratov/t5-experiments
(branch feat/trainer_with_accelerate, 114dab52; Python 3.9, torch 1.10.2, transformers 4.17.0, CPU, float32, one thread):
- models/NAME: a `modeling_t5:T5ForConditionalGeneration` of the `config` in meta.json in training mode, with N(0, 0.05) added
  to all parameters, or a `modeling_bert:BertForPreTraining` with N(0, 0.1). weights.safetensors has its named_parameters(), expect.safetensors the arguments of one call as
  `batch.*`, its logits and the gradients of its loss as `grad.*`, and meta.json the loss.
- init_stats.json: mean, standard deviation and greatest magnitude of the parameters of new models.
Of each gradient, and of the logits of counted positions, the file keeps the norm and 16 products with `noise` of samples.py,
each of which moves with every element. Names and axes are T5X's, except in the weights.
"""

import json
import pathlib
import re
import shutil
import sys

import numpy as np
from samples import noise

MODELS = ["t5_relu_tied", "t5_gated_gelu", "t5_memory_5", "t5_cdq_mixed", "t5_cdq_only"]
SPARSE_BERTS = ["bert_bigbird", "bert_fixed"]
BERTS = SPARSE_BERTS + ["bert_absolute", "bert_rotary", "bert_pre_ln_last_ln", "bert_relative_dense_dead_bias", "bert_relative_sparse"]
FRESH = ["t5_relu_tied", "t5_gated_untied_memory_factor_0.5", "t5_cdq_mixed"]
NUM_PRODUCTS = 16
TOP = {
    "memory_tokens": "encoder/memory_tokens/embedding", "shared.weight": "token_embedder/embedding",
    "lm_head.weight": "decoder/logits_dense/kernel", "encoder.final_layer_norm.weight": "encoder/encoder_norm/scale",
    "decoder.final_layer_norm.weight": "decoder/decoder_norm/scale",
}
NORMS = {"encoder": ["attention", "mlp"], "decoder": ["self_attention", "cross_attention", "mlp"]}
ATTENTIONS = {"encoder": ["attention"], "decoder": ["self_attention", "encoder_decoder_attention"]}
KERNELS = {
    "q": "query", "k": "key", "v": "value", "o": "out", "wi": "wi", "wi_0": "wi_0", "wi_1": "wi_1", "wo": "wo",
    "W_t": "cdq_transform", "T": "cdq_scores", "cd_w": "cdq_mix", "cd_q": "cdq_query",
}


def t5x(name):
    """T5X's name of a parameter, and whether its axes are swapped."""
    if name in TOP:
        return TOP[name], name == "lm_head.weight"
    stack, layer, place, module, last = re.fullmatch(
        r"(encoder|decoder)\.block\.(\d+)\.layer\.(\d)\.(?:(\w+)\.)?(\w+)\.weight", name).groups()
    path = f"{stack}/layers_{layer}"
    if last == "layer_norm":
        return f"{path}/pre_{NORMS[stack][int(place)]}_layer_norm/scale", False
    if last == "relative_attention_bias":
        return f"{stack}/relpos_bias/rel_embedding", True
    block = "mlp" if module == "DenseReluDense" else ATTENTIONS[stack][int(place)]
    return f"{path}/{block}/{KERNELS[last]}/kernel", True


def tensors(path):
    """The arrays of a file of safetensors."""
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    header.pop("__metadata__", None)
    kinds = {"F32": np.float32, "I64": np.int64}
    read = lambda it: np.frombuffer(data[start:][slice(*it["data_offsets"])], kinds[it["dtype"]]).reshape(it["shape"])
    return {name: read(it) for name, it in header.items()}


def save(path, arrays):
    """Writes arrays of float32 to a file of safetensors."""
    header, data = {}, b""
    for name, array in arrays.items():
        raw = np.ascontiguousarray(array, np.float32).tobytes()
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text = text.ljust((len(text) + 7) // 8 * 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def products(array):
    """The norm, and products with noise of as many elements, with 9 digits."""
    flat = np.ascontiguousarray(array).reshape(-1).astype(np.float64)
    found = [np.linalg.norm(flat)] + [flat @ noise(flat.shape, seed).astype(np.float64) for seed in range(1, NUM_PRODUCTS + 1)]
    return [float(f"{number:.9g}") for number in found]


def model(folder, weights):
    meta, expected = json.loads((folder / "meta.json").read_text()), tensors(folder / "expect.safetensors")
    shutil.copyfile(folder / "weights.safetensors", weights)
    inputs, labels = expected["batch.input_ids"], expected["batch.labels"]
    assert ((inputs > 0) == expected["batch.attention_mask"]).all(), "only padding is masked"
    gradients = {}
    for name, array in expected.items():
        if name.startswith("grad."):
            own, is_swapped = t5x(name.removeprefix("grad."))
            gradients[own] = products(array.T if is_swapped else array)
    return {
        "config": meta["config"], "inputs": inputs.tolist(), "targets": np.maximum(labels, 0).tolist(),
        "loss": meta["losses"]["loss"], "logits": products(expected["logits"][labels > 0]), "gradients": gradients,
    }


BERT_MODULES = {
    r"bert\.embeddings\.word_embeddings": "token_embedder", r"bert\.embeddings\.position_embeddings": "position_embedder",
    r"bert\.embeddings\.token_type_embeddings": "type_embedder", r"bert\.embeddings\.LayerNorm": "embedder_norm",
    r"bert\.encoder\.layer\.(\d+)\.(?:attention\.output\.LayerNorm|pre_attention_ln)": r"encoder/layers_\1/pre_attention_layer_norm",
    r"bert\.encoder\.layer\.(\d+)\.(?:output\.LayerNorm|post_attention_ln)": r"encoder/layers_\1/pre_mlp_layer_norm",
    r"bert\.encoder\.layer\.(\d+)\.attention\.self\.(query|key|value)": r"encoder/layers_\1/attention/\2",
    r"bert\.encoder\.layer\.0\.attention\.self\.relative_attention_bias": "encoder/relpos_bias",
    r"bert\.encoder\.layer\.(\d+)\.attention\.output\.dense": r"encoder/layers_\1/attention/out",
    r"bert\.encoder\.layer\.(\d+)\.intermediate\.dense": r"encoder/layers_\1/mlp/wi",
    r"bert\.encoder\.layer\.(\d+)\.output\.dense": r"encoder/layers_\1/mlp/wo",
    r"bert\.encoder\.last_layer_ln": "encoder/encoder_norm", r"bert\.pooler\.dense": "pooler",
    r"cls\.predictions": "masked_tokens", r"cls\.predictions\.transform\.dense": "masked_tokens/dense",
    r"cls\.predictions\.transform\.LayerNorm": "masked_tokens/norm", r"cls\.seq_relationship": "classes",
}


def of_bert(name, array):
    """The name of a BERT's parameter here, and its values with the axes of here."""
    module, last = name.rsplit(".", 1)
    own = next(re.sub(f"^{torch}$", own, module) for torch, own in BERT_MODULES.items() if re.fullmatch(torch, module))
    if last == "bias":
        return f"{own}/bias", array
    if "embedder" in own and "norm" not in own:
        return f"{own}/embedding", array
    if own == "encoder/relpos_bias":
        return f"{own}/rel_embedding", array.T
    return (f"{own}/scale", array) if array.ndim == 1 else (f"{own}/kernel", array.T)


def bert(folder, weights):
    meta, expected = json.loads((folder / "meta.json").read_text()), tensors(folder / "expect.safetensors")
    batch = {name: expected[f"batch.{name}"] for name in ["input_ids", "token_type_ids", "labels", "next_sentence_label"]}
    # Buffers are marked as such; in a model's own file they are not. Layouts are written apart.
    arrays = tensors(folder / "weights.safetensors")
    layout = next((array for name, array in arrays.items() if name.endswith("layout")), None)
    save(weights, {name.removeprefix("buffer."): array for name, array in arrays.items() if not name.endswith("layout")})
    # Padded positions differ where a block has padding alone.
    real = batch["input_ids"][:, ::4] > 0
    gradients = {name.split("grad.")[1]: array for name, array in expected.items() if "grad." in name}
    assert ((batch["input_ids"] > 0) == expected["batch.attention_mask"]).all(), "only padding is masked"
    return {
        "config": meta["config"], "losses": meta["losses"], "batch": {name: ids.tolist() for name, ids in batch.items()},
        "orders": expected["seq_relationship_logits"].tolist(),
        "logits": products(expected["prediction_logits_every_4th_position"][real]),
        "layout": layout.tolist() if layout is not None else None,
        "gradients": {own: products(array) for own, array in (of_bert(*it) for it in gradients.items())},
    }


def main():
    run, here = pathlib.Path(sys.argv[1]), pathlib.Path(__file__).parent
    data = here / "data/t5_experiments"
    data.mkdir(exist_ok=True)
    models = {name: model(run / "models" / name, data / f"{name}.safetensors") for name in MODELS}
    stats = json.loads((run / "init_stats.json").read_text())["models"]
    fresh = {name: {t5x(own)[0]: numbers for own, numbers in stats[name].items()} for name in FRESH}
    write(here / "t5_experiments.json", {"models": models, "fresh": fresh})
    write(here / "bert.json", {name: bert(run / "models" / name, data / f"{name}.safetensors") for name in BERTS})


def write(path, value):
    # One line for each array.
    path.write_text(re.sub(r"(\]|\}), ", r"\1,\n", json.dumps(value)) + "\n")


if __name__ == "__main__":
    main()
