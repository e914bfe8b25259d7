"""Training steps of Hugging Face's T5 1.1 and BERT, as a peer of `gimlet bench train_step`.

Prints one JSON line a step. Made fair as follows: the head is untied (transformers 5 ties it whatever
the configuration says) and has T5X's initial scale (its own saturates the softmax and floods the
backward pass with denormals), denormals are flushed, attention is torch's SDPA, dropout is off, no
padding mask is passed since no token is padding, and gradients are freed before each step. In bfloat16
it runs under autocast, as its users do; BERT masks 15% of its tokens, has no dropout and AdamW; parameters stay float32. On a GPU float32 products are in TF32, and the
clock stops when the device has finished. With `--lora`, PEFT adds factors of rank 8 to the queries and values of the T5,
and they alone are trained.

Needs torch 2.11.0 and transformers 5.23.0, and for `--lora` peft 0.21.2. Run it through `compare_train_step.py`.
"""

import argparse
import contextlib
import json
import resource
import time

import torch
from transformers import (
    BertConfig, BertForPreTraining, BigBirdConfig, BigBirdForPreTraining, T5Config, T5ForConditionalGeneration)
from transformers.optimization import Adafactor


# Width, feed-forward width, heads, their width, layers of a stack, vocabulary, parameters.
SIZES = {
    "quickstart": (128, 256, 4, 32, 2, 2176, 1_345_280),
    "small": (512, 1024, 6, 64, 8, 32128, 76_961_152),
    "base": (768, 2048, 12, 64, 12, 32128, 247_577_856),
    "large": (1024, 2816, 16, 64, 24, 32128, 783_150_080),
    "xl": (2048, 5120, 32, 64, 24, 32128, 2_849_757_184),
}


def build(size, attention):
    d_model, d_ff, num_heads, d_kv, num_layers, vocab_size, expected = SIZES[size]
    config = T5Config(
        vocab_size=vocab_size, d_model=d_model, d_kv=d_kv, d_ff=d_ff, num_layers=num_layers,
        num_decoder_layers=num_layers, num_heads=num_heads,
        feed_forward_proj="gated-gelu", dropout_rate=0.0, tie_word_embeddings=False, use_cache=False,
        pad_token_id=0, eos_token_id=1, decoder_start_token_id=0)
    config._attn_implementation = attention
    model = T5ForConditionalGeneration(config)
    model.config.tie_word_embeddings = False
    model.config.scale_decoder_outputs = False
    model.lm_head.weight = torch.nn.Parameter(torch.randn_like(model.lm_head.weight) * d_model**-0.5)
    count = sum(p.numel() for p in model.parameters())
    assert count == expected, f"{count} parameters: the head is tied"
    return model.train()

# Layers of a BERT with the other dimensions of the base size, and whether its attention is BigBird's.
BERTS = {"bert_4_layers": (4, False), "bert_base": (12, False), "bert_big_bird": (1, True)}
MASKED = 0.15


def build_bert(size, length, attention):
    num_layers, is_sparse = BERTS[size]
    same = dict(num_hidden_layers=num_layers, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
                max_position_embeddings=length, vocab_size=1024 if is_sparse else 30522)
    if is_sparse:
        config = BigBirdConfig(attention_type="block_sparse", block_size=64, num_random_blocks=3, hidden_act="gelu",
                               **same)
        return BigBirdForPreTraining(config).train()
    config = BertConfig(**same)
    config._attn_implementation = attention
    return BertForPreTraining(config).train()


def bert_batch(rows, length, vocab_size, device):
    ids = torch.randint(1, vocab_size, (rows, length), device=device)
    is_masked = torch.rand(rows, length, device=device) < MASKED
    return dict(input_ids=ids, token_type_ids=torch.zeros_like(ids), labels=ids.masked_fill(~is_masked, -100),
                next_sentence_label=torch.arange(rows, device=device) % 2)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--attention", choices=["sdpa", "eager"], default="sdpa")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--batch_size", type=int, default=8)
    parser.add_argument("--inputs_length", type=int, default=512)
    parser.add_argument("--targets_length", type=int, default=114)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--size", choices=[*SIZES, *BERTS], default="small")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--compile", action="store_true", help="torch.compile the model")
    parser.add_argument("--lora", action="store_true", help="train an adapter of PEFT's")
    args = parser.parse_args()

    cuda = args.device == "cuda"
    synchronize = torch.cuda.synchronize if cuda else lambda: None
    if cuda:
        torch.backends.cuda.matmul.allow_tf32 = True
    torch.set_num_threads(args.threads)
    assert torch.set_flush_denormal(True)
    torch.manual_seed(0)
    is_bert = args.size in BERTS
    if is_bert:
        with torch.device(args.device):
            model = build_bert(args.size, args.inputs_length, args.attention)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01)
    else:
        # Drawn on the device: a CPU takes half a minute for the largest.
        with torch.device(args.device):
            model = build(args.size, args.attention)
        if args.lora:
            from peft import LoraConfig, get_peft_model

            model = get_peft_model(model, LoraConfig(r=8, lora_alpha=16, lora_dropout=0.0, target_modules=["q", "v"]))
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        # As `gimlet/lora.gin`: the second factors begin with 0.
        optimizer = Adafactor(trained, lr=1e-2, scale_parameter=not args.lora, relative_step=False, warmup_init=False)
    if args.compile:
        model = torch.compile(model)
    tokens = lambda length: torch.randint(2, model.config.vocab_size - 100, (args.batch_size, length), device=args.device)
    if is_bert:
        batch = bert_batch(args.batch_size, args.inputs_length, model.config.vocab_size, args.device)
    else:
        batch = dict(input_ids=tokens(args.inputs_length), labels=tokens(args.targets_length))
    for step in range(args.steps):
        start, cpu = time.perf_counter(), time.process_time()
        narrow = args.dtype == "bfloat16"
        with torch.autocast(args.device, torch.bfloat16) if narrow else contextlib.nullcontext():
            loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        value = loss.item()
        synchronize()
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
        print(json.dumps({
            "implementation": "transformers", "size": args.size, "device": args.device, "dtype": args.dtype,
            "step": step, "loss": value, "seconds": seconds,
            "cpu_seconds": cpu,
            "tokens_per_second": args.batch_size * (args.inputs_length + (0 if is_bert else args.targets_length)) / seconds,
            "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            "peak_device_mb": torch.cuda.max_memory_allocated() / 2**20 if cuda else None,
        }), flush=True)


if __name__ == "__main__":
    main()
