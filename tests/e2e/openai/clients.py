"""Asks a server of Gimlet with OpenAI's client and with lm_eval, and compares the answers with transformers' own.

    python clients.py http://127.0.0.1:8000 FOLDER_OF_THE_MODEL
Needs openai, lm_eval[api,hf], transformers and torch. FOLDER_OF_THE_MODEL is the folder of a T5 of Hugging Face's that the server
has as its checkpoint. Written for openai 3.57.0, lm_eval 0.4.13 and transformers 5.24.0.
"""

import json
import os
import pathlib
import sys
import tempfile

os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
TOLERANCE = 1e-3
QUESTIONS = [
    {"question": "who: Ana sold four green lamps in Cluj.", "choices": ["Ana", "Dan", "four lamps"], "answer": 0},
    {"question": "where: Ana sold four green lamps in Cluj.", "choices": ["Iasi", "Cluj", "Ana"], "answer": 1},
    {"question": "how many", "choices": ["four", "4", "without restriction"], "answer": 0},
    {"question": "a", "choices": ["bc", "yyyem"], "answer": 1},
]


def ask_with_openai(url, folder):
    import openai
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    client = openai.OpenAI(base_url=f"{url}/v1", api_key="secret", max_retries=0)
    [served] = client.models.list().data
    model, tokenizer = AutoModelForSeq2SeqLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    questions = [row["question"] for row in QUESTIONS]
    found = client.completions.create(model=served.id, prompt=questions, temperature=0, max_tokens=12)
    for question, choice in zip(questions, found.choices):
        ids = tokenizer(question, return_tensors="pt").input_ids
        expected = model.generate(ids, max_new_tokens=12, do_sample=False)[0]
        text = tokenizer.decode(expected, skip_special_tokens=True)
        assert choice.text == text, (choice, text)
        assert choice.finish_reason == ("stop" if expected[-1] == 1 else "length"), choice
    assert found.usage.completion_tokens <= 12 * len(questions), found.usage

    first = found.choices[0].text
    stream = client.completions.create(
        model=served.id, prompt=questions[0], temperature=0, max_tokens=12, stream=True, n=2,
        stream_options={"include_usage": True})
    texts, usage = ["", ""], None
    for part in stream:
        usage = part.usage or usage
        for choice in part.choices:
            texts[choice.index] += choice.text
    assert texts == [first, first], texts
    assert usage.completion_tokens == 24 and usage.total_tokens == 24 + usage.prompt_tokens, usage
    drop = client.completions.create(model=served.id, prompt="a", max_tokens=2000, stream=True)
    next(iter(drop))
    drop.close()

    stopped = client.completions.create(
        model=served.id, prompt=questions[0], temperature=0, max_tokens=12, stop=[first[4:6]])
    assert stopped.choices[0].text == first[:first.index(first[4:6])], stopped
    best = client.completions.create(model=served.id, prompt="a", n=2, best_of=5, seed=3, logprobs=2)
    means = [sum(row.logprobs.token_logprobs) / len(row.logprobs.tokens) for row in best.choices]
    assert means[0] >= means[1], means
    assert all(len(top) in (2, 3) for row in best.choices for top in row.logprobs.top_logprobs), best
    for error, code, options in [
        (openai.NotFoundError, "model_not_found", {"model": "gpt-3.5-turbo-instruct", "prompt": "a"}),
        (openai.BadRequestError, None, {"model": served.id, "prompt": "a", "suffix": "b"}),
        (openai.BadRequestError, "context_length_exceeded", {"model": served.id, "prompt": "a" * 3000}),
    ]:
        try:
            client.completions.create(**options)
        except error as refused:
            assert refused.code == code and served.id in refused.message or refused.param, refused.body
        else:
            raise AssertionError(f"{options} is not refused")
    return served.id


def task(folder, name, **fields):
    import yaml

    data = folder / "questions.json"
    data.write_text("".join(json.dumps(row) + "\n" for row in QUESTIONS))
    common = dict(
        task=name, dataset_path="json", dataset_kwargs=dict(data_files=dict(test=str(data))), test_split="test",
        doc_to_text="{{question}}")
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(common | fields))


def evaluate(folder, name, kind, **model_args):
    import lm_eval
    from lm_eval.tasks import TaskManager

    manager = TaskManager(include_path=str(folder), include_defaults=False)
    found = lm_eval.simple_evaluate(
        model=kind, model_args=model_args, tasks=[name], task_manager=manager, log_samples=True, bootstrap_iters=0)
    rows = sorted(found["samples"][name], key=lambda row: row["doc_id"])
    return [row["filtered_resps"] for row in rows], found["results"][name]


def ask_with_lm_eval(url, folder, served):
    with tempfile.TemporaryDirectory() as tasks:
        tasks = pathlib.Path(tasks)
        choices = dict(output_type="multiple_choice", doc_to_choice="{{choices}}", doc_to_target="answer")
        # The end token of the inputs stands between them and the answer.
        task(tasks, "choices", target_delimiter="</s>", **choices)
        task(tasks, "choices_of_transformers", target_delimiter="", **choices)
        task(tasks, "texts", output_type="generate_until", doc_to_target="{{choices[answer]}}",
             generation_kwargs=dict(until=["\n"], max_gen_toks=12))
        server = dict(model=served, base_url=f"{url}/v1/completions", tokenizer=folder, tokenizer_backend="huggingface",
                      max_length=512, max_gen_toks=12)
        local = dict(pretrained=folder, backend="seq2seq", device="cpu", dtype="float32")
        expected, result = evaluate(tasks, "choices_of_transformers", "hf", **local)
        texts, _ = evaluate(tasks, "texts", "hf", **local)
        for options in [dict(), dict(num_concurrent=4), dict(batch_size=3), dict(tokenized_requests=False)]:
            found, own = evaluate(tasks, "choices", "local-completions", **server, **options)
            pairs = [pair for rows in zip(found, expected) for pair in zip(*rows)]
            most = max(abs(one[0] - other[0]) for one, other in pairs)
            assert most < TOLERANCE, (found, expected)
            assert all(one[1] == other[1] for one, other in pairs), (found, expected)
            assert own["acc,none"] == result["acc,none"], (own, result)
            print(f"{options}: {len(pairs)} log-likelihoods differ by at most {most:.1e}")
        found, _ = evaluate(tasks, "texts", "local-completions", **server)
        assert found == texts, (found, texts)


if __name__ == "__main__":
    ask_with_lm_eval(*sys.argv[1:], ask_with_openai(*sys.argv[1:]))
