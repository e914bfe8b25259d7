"""Writes the loss and all gradients of Hugging Face's LongT5 with either attention, as make_hf_t5.py does of T5.

Made with torch 2.11.0 and transformers 4.57.6 on a CPU, from float32 parameters computed with in float64.

Usage: python make_hf_longt5.py OUTPUT_DIR
"""

import json
import pathlib
import sys

import torch
from transformers import LongT5Config, LongT5ForConditionalGeneration
from transformers.models.longt5.modeling_longt5 import LongT5LayerNorm

import make_hf_t5 as t5

DIMS = t5.DIMS | dict(num_decoder_layers=1)
# The last block of a row is shorter than others, and so is the last part of it that has a global token.
LOCAL_RADIUS, TOKENS_PER_BLOCK = 9, 4
MODELS = {"hf_longt5_local": "local", "hf_longt5_transient_global": "transient-global"}


def build(attention):
    config = LongT5Config(
        vocab_size=DIMS["vocab_size"], d_model=DIMS["emb_dim"], d_kv=DIMS["head_dim"], d_ff=DIMS["mlp_dim"],
        num_layers=DIMS["num_encoder_layers"], num_decoder_layers=DIMS["num_decoder_layers"],
        num_heads=DIMS["num_heads"], feed_forward_proj="gated-gelu", dropout_rate=0.0, tie_word_embeddings=False,
        encoder_attention_type=attention, local_radius=LOCAL_RADIUS, global_block_size=TOKENS_PER_BLOCK,
        pad_token_id=0, eos_token_id=1, decoder_start_token_id=0)
    model = LongT5ForConditionalGeneration(config)
    for parameter in model.parameters():
        if parameter.dim() == 1:
            parameter.data.uniform_(0.5, 1.5)
        else:
            parameter.data.normal_(0.0, 0.2)
    return model


def names(attention):
    module = {"local": "LocalSelfAttention", "transient-global": "TransientGlobalSelfAttention"}[attention]
    t5.DIMS = DIMS
    def of_encoder(name):
        return name.replace("SelfAttention", module) if name.startswith("encoder.") else name
    out = [(ours, of_encoder(theirs), transposed) for ours, theirs, transposed in t5.names(False, False)]
    if attention == "transient-global":
        first = f"encoder.block.0.layer.0.{module}"
        out.append(("encoder/side_relpos_bias/rel_embedding", f"{first}.global_relative_attention_bias.weight", True))
        for layer in range(DIMS["num_encoder_layers"]):
            norm = f"encoder.block.{layer}.layer.0.{module}.global_input_layer_norm.weight"
            out.append((f"encoder/layers_{layer}/attention/T5LayerNorm_0/scale", norm, False))
    return sorted(out)


def main(output_dir):
    for name, attention in MODELS.items():
        torch.manual_seed(0)
        model = build(attention).double()
        LongT5LayerNorm.forward = lambda norm, hidden: norm.weight * hidden * torch.rsqrt(
            hidden.pow(2).mean(-1, keepdim=True) + norm.variance_epsilon)
        torch.Tensor.float = lambda tensor: tensor
        inputs = t5.padded([t5.INPUTS_LENGTH, 3, 77], t5.INPUTS_LENGTH)
        targets = t5.padded([5, 12, 60], 60)
        labels = targets.masked_fill(targets == 0, -100)
        loss = model(input_ids=inputs, attention_mask=(inputs > 0).long(), labels=labels).loss
        loss.backward()
        parameters = dict(model.named_parameters())
        named = names(attention)
        assert len(named) == len(parameters), set(parameters) - {theirs for _, theirs, _ in named}
        ordered = [(parameters[theirs], transposed) for _, theirs, transposed in named]
        flat = lambda t, transposed: (t.T if transposed else t).contiguous().flatten()
        values = [flat(p.data, transposed) for p, transposed in ordered]
        gradients = [flat(p.grad, transposed) for p, transposed in ordered]
        path = pathlib.Path(output_dir) / name
        path.with_suffix(".bin").write_bytes(torch.cat(values + gradients).detach().numpy().astype("<f4").tobytes())
        span = dict(local_radius=LOCAL_RADIUS)
        if attention == "transient-global":
            span["tokens_per_block"] = TOKENS_PER_BLOCK
        record = dict(dims=DIMS, tied=False, span=span, loss=loss.item(), inputs=inputs.tolist(), targets=targets.tolist())
        path.with_suffix(".json").write_text(json.dumps(record) + "\n")
        print(name, loss.item(), len(named))


if __name__ == "__main__":
    main(sys.argv[1])
