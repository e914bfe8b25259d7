"""Writes adapters with random weights as PEFT saves them, beside the base model `flan_t5`, and PEFT's answers and scores.

Made with peft 0.21.2, transformers 5.24.0 and torch 2.11.0 (python 3.11):
    python tests/e2e/hugging_face/make_peft.py
`peft_lora` changes attentions and feed-forward blocks of both stacks, in one layer of two in the decoder's case, with a
rank-stabilized scale; `peft_prompt` puts learned rows before the inputs. Real PEFT reads what Gimlet writes by
`peft_clients.py`.
"""

import json
import pathlib

import peft
import torch
from make_folders import TARGETS, TEXTS
from transformers import ByT5Tokenizer, T5ForConditionalGeneration

HERE = pathlib.Path(__file__).parent
BASE = "flan_t5"
ADAPTERS = {
    "peft_lora": peft.LoraConfig(
        task_type="SEQ_2_SEQ_LM", r=3, lora_alpha=5, use_rslora=True, lora_dropout=0.1,
        target_modules=r"encoder.*\.(q|v|wi_0|wo)|decoder\.block\.0.*\.(k|o|wi_1)"),
    "peft_prompt": peft.PromptTuningConfig(task_type="SEQ_2_SEQ_LM", num_virtual_tokens=5),
}


def outputs(model, tokenizer):
    for text, target in zip(TEXTS, TARGETS):
        inputs = tokenizer(text, return_tensors="pt")
        labels = tokenizer(target, return_tensors="pt").input_ids
        with torch.no_grad():
            scores = model(**inputs, labels=labels).logits.log_softmax(-1)
            score = scores.gather(-1, labels[..., None]).sum().item()
            answer = tokenizer.decode(model.generate(**inputs)[0], skip_special_tokens=True)
        yield {"inputs": text, "targets": target, "score": round(score, 4), "answer": answer}


def main():
    tokenizer = ByT5Tokenizer()
    for name, config in ADAPTERS.items():
        torch.manual_seed(0)
        base = T5ForConditionalGeneration.from_pretrained(HERE / BASE)
        model = peft.get_peft_model(base, config).eval()
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.data.normal_(0, 0.4)
        folder = HERE / name
        model.save_pretrained(folder)
        (folder / "README.md").unlink(missing_ok=True)
        file = folder / "adapter_config.json"
        fields = {**json.loads(file.read_text()), "base_model_name_or_path": f"../{BASE}"}
        file.write_text(json.dumps(fields, indent=2) + "\n")
        again = T5ForConditionalGeneration.from_pretrained(HERE / BASE)
        again = peft.PeftModel.from_pretrained(again, folder).eval()
        rows = "".join(json.dumps(row) + "\n" for row in outputs(again, tokenizer))
        (folder / "outputs.jsonl").write_text(rows)


if __name__ == "__main__":
    main()
