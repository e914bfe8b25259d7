"""Writes the loss and all gradients of Hugging Face's T5 for two tiny models and of its umT5, and one model as a folder.

Made with torch 2.11.0 and transformers 5.23.0 on a CPU, from float32 parameters computed with in float64: in
float32 the order of sums alone moves small gradients, whose terms cancel, by 1e-5. For each model: NAME.json holds the
dimensions, the tokens and the loss, NAME.bin the parameters and then their gradients, float32 in the
order and layout of T5X (kernels are [in, out]). The folder NAME is what transformers saves of the untied T5.

Usage: python make_hf_t5.py OUTPUT_DIR
"""

import json
import pathlib
import sys

import torch
from transformers import T5Config, T5ForConditionalGeneration, UMT5Config, UMT5ForConditionalGeneration
from transformers.models.t5.modeling_t5 import T5LayerNorm
from transformers.models.umt5.modeling_umt5 import UMT5LayerNorm

DIMS = dict(vocab_size=40, emb_dim=16, num_heads=2, head_dim=8, mlp_dim=24,
            num_encoder_layers=2, num_decoder_layers=2)
T5 = (T5Config, T5ForConditionalGeneration)
UMT5 = (UMT5Config, UMT5ForConditionalGeneration)
# Name to (family, whether the head is the embedding).
MODELS = {"hf_tied_relu": (T5, True), "hf_untied_gated_gelu": (T5, False), "hf_umt5": (UMT5, False)}
BATCH, INPUTS_LENGTH, TARGETS_LENGTH = 3, 150, 140


def build(family, tied):
    make_config, make_model = family
    config = make_config(
        vocab_size=DIMS["vocab_size"], d_model=DIMS["emb_dim"], d_kv=DIMS["head_dim"],
        d_ff=DIMS["mlp_dim"], num_layers=DIMS["num_encoder_layers"],
        num_decoder_layers=DIMS["num_decoder_layers"], num_heads=DIMS["num_heads"],
        feed_forward_proj="relu" if tied else "gated-gelu", dropout_rate=0.0,
        tie_word_embeddings=tied, pad_token_id=0, eos_token_id=1, decoder_start_token_id=0)
    config._attn_implementation = "eager"
    model = make_model(config)
    if not tied:
        # transformers 5 ties the head whatever the configuration says.
        model.config.tie_word_embeddings = False
        model.config.scale_decoder_outputs = False
        model.lm_head.weight = torch.nn.Parameter(torch.empty_like(model.lm_head.weight))
    for parameter in model.parameters():
        # Norm scales away from 1, and kernels large enough that every gradient matters, yet not so large that
        # rounding anywhere moves gradients by 1e-5.
        if parameter.dim() == 1:
            parameter.data.uniform_(0.5, 1.5)
        else:
            parameter.data.normal_(0.0, 0.2)
    return model


def compute_in_float64(model):
    """Also where transformers asks for float32, in norms and before softmax."""
    def normalize(norm, hidden):
        return norm.weight * hidden * torch.rsqrt(hidden.pow(2).mean(-1, keepdim=True) + norm.variance_epsilon)
    T5LayerNorm.forward = UMT5LayerNorm.forward = normalize
    torch.Tensor.float = lambda tensor: tensor
    return model.double()


def names(tied, bias_per_layer):
    """(T5X's name, Hugging Face's name, whether transposed)."""
    out = [("token_embedder/embedding", "shared.weight", False)]
    if not tied:
        out.append(("decoder/logits_dense/kernel", "lm_head.weight", True))
    for stack, layers in [("encoder", DIMS["num_encoder_layers"]), ("decoder", DIMS["num_decoder_layers"])]:
        for layer in range(layers if bias_per_layer else 1):
            owner = f"{stack}/layers_{layer}" if bias_per_layer else stack
            bias = f"{stack}.block.{layer}.layer.0.SelfAttention.relative_attention_bias.weight"
            out.append((f"{owner}/relpos_bias/rel_embedding", bias, True))
        out.append((f"{stack}/{stack}_norm/scale", f"{stack}.final_layer_norm.weight", False))
        attentions = [("attention", "pre_attention_layer_norm", "SelfAttention")]
        if stack == "decoder":
            attentions = [("self_attention", "pre_self_attention_layer_norm", "SelfAttention"),
                          ("encoder_decoder_attention", "pre_cross_attention_layer_norm", "EncDecAttention")]
        for layer in range(layers):
            ours, theirs = f"{stack}/layers_{layer}", f"{stack}.block.{layer}.layer"
            for i, (attention, norm, module) in enumerate(attentions):
                out.append((f"{ours}/{norm}/scale", f"{theirs}.{i}.layer_norm.weight", False))
                for name, letter in [("query", "q"), ("key", "k"), ("value", "v"), ("out", "o")]:
                    out.append((f"{ours}/{attention}/{name}/kernel", f"{theirs}.{i}.{module}.{letter}.weight", True))
            i = len(attentions)
            out.append((f"{ours}/pre_mlp_layer_norm/scale", f"{theirs}.{i}.layer_norm.weight", False))
            for name in ["wi", "wo"] if tied else ["wi_0", "wi_1", "wo"]:
                out.append((f"{ours}/mlp/{name}/kernel", f"{theirs}.{i}.DenseReluDense.{name}.weight", True))
    return sorted(out)


def padded(lengths, length):
    tokens = torch.zeros(BATCH, length, dtype=torch.long)
    for row, count in enumerate(lengths):
        tokens[row, :count] = torch.randint(2, DIMS["vocab_size"], (count,))
        tokens[row, count - 1] = 1
    return tokens


def main(output_dir):
    for name, (family, tied) in MODELS.items():
        torch.manual_seed(0)
        model = compute_in_float64(build(family, tied))
        inputs = padded([INPUTS_LENGTH, 9, 77], INPUTS_LENGTH)
        targets = padded([5, TARGETS_LENGTH, 60], TARGETS_LENGTH)
        labels = targets.masked_fill(targets == 0, -100)
        loss = model(input_ids=inputs, attention_mask=(inputs > 0).long(), labels=labels).loss
        loss.backward()
        parameters = dict(model.named_parameters())
        named = names(tied, family is UMT5)
        assert len(named) == len(parameters), set(parameters) - {theirs for _, theirs, _ in named}
        ordered = [(parameters[theirs], transposed) for _, theirs, transposed in named]
        flat = lambda t, transposed: (t.T if transposed else t).contiguous().flatten()
        values = [flat(p.data, transposed) for p, transposed in ordered]
        gradients = [flat(p.grad, transposed) for p, transposed in ordered]
        path = pathlib.Path(output_dir) / name
        path.with_suffix(".bin").write_bytes(torch.cat(values + gradients).detach().numpy().astype("<f4").tobytes())
        dims = DIMS | ({"relpos_bias_per_layer": True} if family is UMT5 else {})
        record = dict(dims=dims, tied=tied, loss=loss.item(), inputs=inputs.tolist(), targets=targets.tolist())
        path.with_suffix(".json").write_text(json.dumps(record) + "\n")
        if family is T5 and not tied:
            model.to(torch.float32).save_pretrained(path)


if __name__ == "__main__":
    main(sys.argv[1])
