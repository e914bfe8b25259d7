"""Writes generate.json: how transformers decode with many generation configs, for generate.rs.

Run as `python generate.py > generate.json` (transformers 5.24.0, torch 2.11.0, CPU). The model's logits depend on the
last token and on the number of tokens alone, so that generate.rs computes the same ones.
"""

import itertools
import json
import re

import torch
from transformers import GenerationConfig, T5Config, T5ForConditionalGeneration
from transformers.modeling_outputs import Seq2SeqLMOutput

VOCAB = 17
INPUTS = [[5, 9, 12, 15, 7, 1], [4, 4, 8, 6, 2, 1]]
NUM_TOKENS = 12

# Greedy decoding, then searches.
GREEDY = [
    {},
    {"repetition_penalty": 1.8},
    {"encoder_repetition_penalty": 2.5},
    {"no_repeat_ngram_size": 1},
    {"no_repeat_ngram_size": 2},
    {"encoder_no_repeat_ngram_size": 1},
    {"encoder_no_repeat_ngram_size": 2},
    {"sequence_bias": [[[3], -8.0], [[0, 11], 9.0], [[11, 6], 7.5], [[11, 6, 2], 6.0]]},
    {"bad_words_ids": [[15], [12, 0], [12, 12, 12], [1]]},
    {"min_new_tokens": 6, "repetition_penalty": 1.8},
    {"forced_bos_token_id": 5},
    {"forced_eos_token_id": [1]},
    {"forced_eos_token_id": [1, 7]},
    {"exponential_decay_length_penalty": [2, 1.6]},
    {"suppress_tokens": [15, 1, 0]},
    {"begin_suppress_tokens": [12, 8, 1]},
    {"forced_bos_token_id": 5, "begin_suppress_tokens": [12, 8, 1]},
    {"eos_token_id": [13, 0]},
    {"eos_token_id": [1, 12, 8, 13], "min_new_tokens": 3, "remove_invalid_values": True},
    {"no_repeat_ngram_size": 2, "repetition_penalty": 1.3, "min_new_tokens": 8, "suppress_tokens": [4]},
]
SEARCHES = [
    {"num_beams": 2},
    {"num_beams": 4, "num_return_sequences": 4},
    {"num_beams": 3, "num_return_sequences": 2, "length_penalty": 0.0},
    {"num_beams": 3, "num_return_sequences": 3, "length_penalty": 2.0},
    {"num_beams": 3, "num_return_sequences": 3, "length_penalty": -1.0},
    {"num_beams": 3, "num_return_sequences": 3, "early_stopping": True},
    {"num_beams": 3, "num_return_sequences": 3, "early_stopping": "never"},
    {"num_beams": 3, "num_return_sequences": 3, "early_stopping": "never", "length_penalty": -0.5},
    {"num_beams": 4, "num_return_sequences": 2, "no_repeat_ngram_size": 2, "length_penalty": 1.5},
    {"num_beams": 3, "num_return_sequences": 3, "repetition_penalty": 1.5, "renormalize_logits": True},
    {"num_beams": 3, "num_return_sequences": 3, "min_new_tokens": 5, "bad_words_ids": [[3], [9, 4]]},
    {"num_beams": 3, "num_return_sequences": 3, "forced_bos_token_id": 5, "forced_eos_token_id": [1]},
    {"num_beams": 3, "num_return_sequences": 3, "eos_token_id": [1, 6, 9]},
    {"num_beams": 3, "encoder_no_repeat_ngram_size": 1, "encoder_repetition_penalty": 1.5},
    {"num_beams": 3, "num_return_sequences": 3, "exponential_decay_length_penalty": [1, 1.3]},
]
# The first token's distribution.
SAMPLED = [
    {"top_k": 0},
    {"temperature": 0.6},
    {"top_k": 4},
    {"top_k": 0, "top_p": 0.7},
    {"top_k": 7, "top_p": 0.8, "temperature": 1.4},
    {"top_k": 0, "min_p": 0.3},
    {"top_k": 0, "top_h": 0.6},
    {"top_k": 0, "typical_p": 0.6},
    {"top_k": 0, "epsilon_cutoff": 0.05},
    {"top_k": 0, "eta_cutoff": 0.2},
    {"top_k": 0, "top_p": 0.9, "suppress_tokens": [2, 11], "renormalize_logits": True},
]
# Letters are the tokens from 3 on. Decoding within a set: transformers get the tokens that may follow from a function.
LETTERS = "abcdefghijklmn"
CHOICES = ["abc", "abd", "a", "nm", "hgfedcba", "kkkk", "kkkj"]
PATTERN = "(ab|[k-n]{1,3})c?|e[a-d]{0,2}"
SETS = [
    ({}, CHOICES),
    ({"repetition_penalty": 1.8}, CHOICES),
    ({"min_new_tokens": 3}, ["abc", "abcdefg", "nmlk", "hgfe"]),
    ({"num_beams": 2}, CHOICES),
    ({"num_beams": 4, "num_return_sequences": 4}, CHOICES),
    ({"num_beams": 5}, CHOICES[:2]),
    ({"num_beams": 4, "num_return_sequences": 4, "length_penalty": 0.0}, CHOICES),
    ({"num_beams": 3, "num_return_sequences": 3, "early_stopping": "never"}, CHOICES),
    ({"num_beams": 3, "num_return_sequences": 3, "early_stopping": True}, CHOICES),
    ({"num_beams": 3, "num_return_sequences": 3, "renormalize_logits": True}, CHOICES),
    ({}, PATTERN),
    ({"num_beams": 4, "num_return_sequences": 4}, PATTERN),
    # Only the first token is drawn: the others are certain.
    ({"do_sample": True, "top_k": 0}, ["abc", "nm", "hgfedcba", "kkkk"]),
    ({"do_sample": True, "top_k": 3, "temperature": 0.7}, "abc|nm|hg|kk|e"),
]


def texts_of(answers):
    """The texts of a set."""
    if isinstance(answers, list):
        return answers
    texts = ("".join(letters) for length in range(6) for letters in itertools.product(LETTERS, repeat=length))
    return [text for text in texts if re.fullmatch(answers, text)]


def following(answers):
    """Returns a prefix_allowed_tokens_fn of a set."""
    texts = texts_of(answers)
    sequences = [[0] + [LETTERS.index(letter) + 3 for letter in text] + [1] for text in texts]

    def allowed(_, ids):
        ids = ids.tolist()
        found = {row[len(ids)] for row in sequences if row[: len(ids)] == ids and len(row) > len(ids)}
        return sorted(found) or [1]

    return allowed


class Table(T5ForConditionalGeneration):
    """Logits of a table, beside an encoder that is not asked."""

    def forward(self, decoder_input_ids=None, encoder_outputs=None, **_):
        length = decoder_input_ids.shape[1]
        numbers = torch.arange(VOCAB * VOCAB, dtype=torch.float64).view(VOCAB, VOCAB)
        table = ((numbers * 1.7 + length * 0.05).sin() * 2).float()
        table[:, 1] += self.end
        return Seq2SeqLMOutput(logits=table[decoder_input_ids], encoder_last_hidden_state=encoder_outputs[0])


def main():
    config = T5Config(vocab_size=VOCAB, d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2, decoder_start_token_id=0)
    model = Table(config).eval()
    inputs = torch.tensor(INPUTS)

    def generate(count, end, answers=None, **settings):
        model.end = end
        allowed = following(answers) if answers else None
        generation = GenerationConfig(
            decoder_start_token_id=0, pad_token_id=0, max_new_tokens=count, use_cache=False,
            return_dict_in_generate=True, output_scores=True, **{"eos_token_id": 1, **settings})
        model.generation_config = GenerationConfig()
        return model.generate(inputs, generation_config=generation, prefix_allowed_tokens_fn=allowed)

    def first_log_probs(**settings):
        torch.manual_seed(0)
        scores = generate(1, 0.0, **settings).scores[0][0].log_softmax(-1).tolist()
        return {str(token): round(score, 5) for token, score in enumerate(scores) if score > -1e9}

    cases = []
    # Searches find sequences of different lengths if the end is more probable.
    plain = [(case, 0.0, None) for case in GREEDY] + [(case, 1.0, None) for case in SEARCHES]
    within = [(case, 0.0, answers) for case, answers in SETS if "do_sample" not in case]
    for settings, end, answers in plain + within:
        found = generate(NUM_TOKENS, end, answers, **settings)
        # A search fills up with end tokens.
        ends = settings.get("eos_token_id", [1])
        rows = []
        for row in found.sequences[:, 1:].tolist():
            length = next((at + 1 for at, token in enumerate(row) if token in ends), len(row))
            rows.append(row[:length] + [0] * (NUM_TOKENS - length))
        case = {"settings": settings, "end": end, "sequences": rows}
        if answers:
            case["answers"] = answers
        if "num_beams" in settings:
            case["scores"] = [round(score, 5) for score in found.sequences_scores.tolist()]
        cases.append(case)
    for settings in [{"do_sample": True, **settings} for settings in SAMPLED]:
        cases.append({"settings": settings, "end": 0.0, "log_probs": first_log_probs(**settings)})
    for settings, answers in [case for case in SETS if "do_sample" in case[0]]:
        log_probs = first_log_probs(answers=answers, **settings)
        cases.append({"settings": settings, "end": 0.0, "answers": answers, "log_probs": log_probs})
    rows = ",\n  ".join(json.dumps(case) for case in cases)
    print(f'{{"inputs": {INPUTS}, "num_tokens": {NUM_TOKENS}, "cases": [\n  {rows}\n]}}')


if __name__ == "__main__":
    main()
