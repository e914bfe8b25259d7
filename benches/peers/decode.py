"""`generate` of Hugging Face's T5 1.1, encoder included, as a peer of `benches/decode.rs` and `gimlet bench decode`.

Prints one JSON line a round. The model is that of `train_step.py`, made fair in the same ways; nothing ends
a sequence, so no processor of logits runs, and attention is torch's SDPA. In bfloat16 parameters are
bfloat16 too: under autocast they would be cast again for every token. `--compile` gives it a static cache, with which
`generate` compiles its steps on a GPU.

`--save FILE` writes weights, under T5X's names, and inputs for the other side to decode, and ends there.
Needs torch 2.11.0 and transformers 5.23.0. Run it through `compare_decode.py`.
"""

import argparse
import json
import resource
import time

import torch
from safetensors.torch import save_file

from train_step import SIZES, build

ATTENTION = {"q": "query", "k": "key", "v": "value", "o": "out"}


def t5x_name(name):
    """The parameter's name in T5X, where kernels and the position bias lie transposed."""
    parts = name.split(".")
    if name == "shared.weight":
        return "token_embedder/embedding"
    if name == "lm_head.weight":
        return "decoder/logits_dense/kernel"
    stack = parts[0]
    if parts[1] == "final_layer_norm":
        return f"{stack}/{stack}_norm/scale"
    if parts[-2] == "relative_attention_bias":
        return f"{stack}/relpos_bias/rel_embedding"
    blocks = [("attention", "pre_attention_layer_norm"), ("mlp", "pre_mlp_layer_norm")]
    if stack == "decoder":
        blocks = [("self_attention", "pre_self_attention_layer_norm"),
                  ("encoder_decoder_attention", "pre_cross_attention_layer_norm"), ("mlp", "pre_mlp_layer_norm")]
    block, norm = blocks[int(parts[4])]
    layer = f"{stack}/layers_{parts[2]}"
    if parts[5] == "layer_norm":
        return f"{layer}/{norm}/scale"
    return f"{layer}/{block}/{ATTENTION.get(parts[6], parts[6])}/kernel"


def t5x_tensors(model):
    lie_alike = lambda name: name == "shared.weight" or "norm" in name
    return {t5x_name(name): (p.detach() if lie_alike(name) else p.detach().T).contiguous()
            for name, p in model.named_parameters()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--attention", choices=["sdpa", "eager"], default="sdpa")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--batch_size", type=int, default=8)
    parser.add_argument("--inputs_length", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--beams", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--size", choices=list(SIZES), default="small")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--save")
    args = parser.parse_args()

    torch.set_num_threads(args.threads)
    assert torch.set_flush_denormal(True)
    torch.manual_seed(0)
    model = build(args.size, args.attention).eval()
    inputs = torch.randint(2, 32000, (args.batch_size, args.inputs_length))
    if args.save:
        save_file({"inputs": inputs, **t5x_tensors(model)}, args.save)
        return
    model.to(args.device, getattr(torch, args.dtype))
    inputs = inputs.to(args.device)
    if args.compile:
        model.generation_config.cache_implementation = "static"
    model.config.use_cache = model.generation_config.use_cache = True
    model.generation_config.eos_token_id = None
    for index in range(args.rounds):
        start, cpu = time.perf_counter(), time.process_time()
        found = model.generate(inputs, max_new_tokens=args.tokens, do_sample=False, num_beams=args.beams)
        sequences = found[:, 1:].tolist()
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
        assert all(len(row) == args.tokens for row in sequences)
        print(json.dumps({
            "implementation": "transformers", "dtype": args.dtype, "round": index, "seconds": seconds,
            "cpu_seconds": cpu, "tokens_per_second": args.batch_size * args.tokens / seconds,
            "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "sequences": sequences,
        }), flush=True)


if __name__ == "__main__":
    main()
