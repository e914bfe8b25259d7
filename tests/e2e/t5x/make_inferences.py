"""Infers with real T5X, and keeps its files of results, for tests/e2e/t5x/infer.rs.

    python make_inferences.py --t5x=T5X_CHECKOUT

Made with the versions of make_runs.py. The model is that of the run `unpacked` after six steps, the examples are its
first ten, with a text, a number of each kind and a list beside the token ids. Each inference is one of INFERENCES:
its options are those of t5x.infer.infer, its result `inferences/NAME.jsonl`.
"""

import argparse
import functools
import json
import pathlib
import sys
import tarfile
import tempfile

import make_runs

HERE = pathlib.Path(__file__).parent
INFERENCES = {
    "predict": dict(mode="predict", output_vocab_feature_name="text", write=dict(output_ids=True)),
    "predict_with_aux": dict(
        mode="predict_with_aux", predict=dict(num_decodes=4, return_all_decodes=True),
        write=dict(include_all_inputs=True, output_ids=True)),
    "score": dict(mode="score", write=dict(input_fields_to_include=["inputs", "number"])),
    "score_of_each_target": dict(mode="score", score=dict(return_intermediates=True), write=dict()),
}
COUNT = 10


def examples():
    lines = (HERE / "unpacked/examples.jsonl").read_text().splitlines()[:COUNT]
    for number, line in enumerate(lines):
        yield {
            **json.loads(line), "inputs_pretokenized": f"é \"{number}\"\t\U0001f600",
            "number": number, "share": number / 3, "list": [number] * (number % 3)}


def add_task():
    import seqio
    import tensorflow as tf

    kinds = dict(
        inputs=([None], tf.int32), targets=([None], tf.int32), inputs_pretokenized=([], tf.string),
        number=([], tf.int64), share=([], tf.float64), list=([None], tf.int64))
    signature = {name: tf.TensorSpec(*kind, name) for name, kind in kinds.items()}

    def dataset_fn(split, shuffle_files, seed=None):
        return tf.data.Dataset.from_generator(examples, output_signature=signature)

    ids = seqio.PassThroughVocabulary(size=make_runs.VOCAB_SIZE, eos_id=make_runs.EOS_ID)
    seqio.TaskRegistry.add(
        "tagged",
        source=seqio.FunctionDataSource(dataset_fn, splits=["test"]),
        preprocessors=[],
        output_features={
            "inputs": seqio.Feature(ids), "targets": seqio.Feature(ids),
            "text": seqio.Feature(seqio.ByteVocabulary(), required=False)})


def infer(name, options, checkpoint, scratch):
    from t5x import infer as t5x_infer
    from t5x import partitioning, utils

    model = make_runs.make_model(make_runs.RUNS["unpacked"])
    for method, bound in [("predict_batch_with_aux", "predict"), ("score_batch", "score")]:
        setattr(model, method, functools.partial(getattr(model, method), **options.get(bound, {})))
    output_dir = pathlib.Path(scratch) / name
    output_dir.mkdir()
    t5x_infer.infer(
        mode=options["mode"], model=model,
        dataset_cfg=utils.DatasetConfig(
            mixture_or_task_name="tagged", task_feature_lengths=make_runs.LENGTHS, split="test",
            batch_size=4, shuffle=False, seed=0),
        restore_checkpoint_cfg=utils.RestoreCheckpointConfig(
            path=str(checkpoint), mode="specific", dtype="float32"),
        partitioner=partitioning.PjitPartitioner(num_partitions=1), output_dir=str(output_dir),
        checkpoint_period=2, checkpoint_ds_iter=False, use_orbax=False,
        output_vocab_feature_name=options.get("output_vocab_feature_name", "targets"),
        write_fn=functools.partial(t5x_infer.write_inferences_to_file, **options["write"]),
        summarize_config_fn=lambda **_: None)
    written = output_dir / f"tagged-{options['mode']}.jsonl-00000-of-00001"
    assert pathlib.Path(f"{written}.COMPLETED").exists()
    (HERE / "inferences" / f"{name}.jsonl").write_bytes(written.read_bytes())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--t5x", required=True, help="checkout of google-research/t5x")
    options = parser.parse_args()
    sys.path.insert(0, options.t5x)
    make_runs.stand_in_for_modules_that_pypi_lacks()
    add_task()
    (HERE / "inferences").mkdir(exist_ok=True)
    lines = (json.dumps(example, ensure_ascii=False) + "\n" for example in examples())
    (HERE / "inferences/examples.jsonl").write_text("".join(lines))
    with tempfile.TemporaryDirectory() as scratch:
        with tarfile.open(HERE / f"unpacked/checkpoint_{make_runs.STEPS}.tar.gz") as tar:
            tar.extractall(scratch)
        for name, inference in INFERENCES.items():
            infer(name, inference, pathlib.Path(scratch) / f"checkpoint_{make_runs.STEPS}", scratch)


if __name__ == "__main__":
    main()
