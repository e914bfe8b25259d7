"""`generate` of Hugging Face's T5 1.1, encoder included, as a peer of `benches/decode.rs` and `gimlet bench decode`.

Prints one JSON line a round: greedy, with beams, or samples of the whole distribution. The model is that of
`train_step.py`, made fair in the same ways; nothing ends a sequence, so no processor of logits runs, and attention is
torch's SDPA. In bfloat16 parameters are bfloat16 too: under autocast they would be cast again for every token.
`--compile` gives it a static cache, with which `generate` compiles its steps.

`--save FILE` writes weights, under T5X's names, and inputs for the other side to decode, and ends there.
Needs torch 2.11.0 and transformers 5.23.0. Run it through `compare_decode.py`.
"""

import argparse
import json
import resource
import time

import torch
from safetensors.torch import save_file
from transformers import CompileConfig

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


def arguments(description):
    """A parser of what this script and `decode_ctranslate2.py` are told."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", default="greedy", help="of greedy, beams and sampling, with commas")
    parser.add_argument("--rounds", type=int, default=4, help="decodings by each method")
    parser.add_argument("--batch_size", type=int, default=8)
    parser.add_argument("--inputs_length", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--beams", type=int, default=4)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--size", choices=list(SIZES), default="small")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    return parser


def model_and_inputs(args, attention="sdpa"):
    """The same ones for the same device."""
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    with torch.device(args.device):
        model = build(args.size, attention).eval()
    inputs = torch.randint(2, model.config.vocab_size - 100, (args.batch_size, args.inputs_length))
    return model, inputs


def measure(about, args, decode):
    """Prints a line for each decoding; `decode` returns the tokens of all rows by a method."""
    for method in args.methods.split(","):
        for index in range(args.rounds):
            start, cpu = time.perf_counter(), time.process_time()
            sequences = decode(method)
            seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
            assert all(len(row) == args.tokens for row in sequences), [len(row) for row in sequences]
            print(json.dumps({
                **about, "method": method, "round": index, "seconds": seconds, "cpu_seconds": cpu,
                "tokens_per_second": args.batch_size * args.tokens / seconds,
                "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "sequences": sequences,
            }), flush=True)


def main():
    parser = arguments(__doc__)
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--attention", choices=["sdpa", "eager"], default="sdpa")
    parser.add_argument("--cache", choices=["dynamic", "static"], default="dynamic")
    parser.add_argument("--compile", action="store_true", help="with a static cache")
    parser.add_argument("--save")
    args = parser.parse_args()

    assert torch.set_flush_denormal(True)
    model, inputs = model_and_inputs(args, args.attention)
    if args.save:
        save_file({"inputs": inputs, **t5x_tensors(model)}, args.save)
        return
    model.to(getattr(torch, args.dtype))
    inputs = inputs.to(args.device)
    config = model.generation_config
    if args.compile or args.cache == "static":
        config.cache_implementation = "static"
        config.disable_compile = not args.compile
    if args.compile:
        # Also where `generate` would not: on CPUs.
        config.compile_config = CompileConfig()
        config.compile_config._compile_all_devices = True
    model.config.use_cache = config.use_cache = True
    config.eos_token_id = None
    methods = {
        "greedy": dict(do_sample=False),
        "beams": dict(do_sample=False, num_beams=args.beams),
        "sampling": dict(do_sample=True, temperature=1.0, top_k=0, top_p=1.0),
    }

    def decode(method):
        found = model.generate(inputs, max_new_tokens=args.tokens, **methods[method])
        return found[:, 1:].tolist()

    measure({"implementation": "transformers", "dtype": args.dtype}, args, decode)


if __name__ == "__main__":
    main()
