"""Loads adapters that Gimlet has written with PEFT, and compares their logits with those of other forms of the same models.

Usage: python peft_clients.py BASE LORA WRITTEN_LORA MERGED PROMPT WRITTEN_PROMPT
The base and MERGED are folders of transformers, the others of PEFT. Logits may differ by 1e-5 of the largest.
"""

import sys

import peft
import torch
from transformers import T5ForConditionalGeneration


def logits(base, adapter=None):
    model = T5ForConditionalGeneration.from_pretrained(base)
    if adapter:
        model = peft.PeftModel.from_pretrained(model, adapter)
    generator = torch.Generator().manual_seed(0)
    inputs, labels = (torch.randint(3, 256, (2, length), generator=generator) for length in (20, 9))
    with torch.no_grad():
        return model.eval()(input_ids=inputs, attention_mask=torch.ones_like(inputs), labels=labels).logits


def compare(name, found, expected):
    difference, largest = (found - expected).abs().max().item(), expected.abs().max().item()
    print(f"{name}: {difference:.1e} of {largest:.1e}")
    assert difference <= 1e-5 * largest, name


def main():
    base, lora, written_lora, merged, prompt, written_prompt = sys.argv[1:]
    compare("LoRA", logits(base, written_lora), logits(base, lora))
    compare("merged", logits(merged), logits(base, lora))
    compare("prompt", logits(base, written_prompt), logits(base, prompt))
    assert not torch.equal(logits(base, lora), logits(base)), "the adapter has an effect"


if __name__ == "__main__":
    main()
