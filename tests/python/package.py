"""Tests of the Python package beside a program: `make wheel-check` runs them with an installed wheel.

    tests/python/package.py --model_dir MODEL_DIR    a run of runs/quickstart/pretrain.gin of three steps

Those of torch, jax and T5X are skipped where these are not installed.
"""

import contextlib
import importlib.util
import itertools
import json
import os
import pathlib
import pickle
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest

import gimlet
import numpy
from gimlet.process import VERSION

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER_OF_T5X = ROOT / "tests/e2e/t5x"
LENGTHS = {"inputs": 64, "targets": 32}
MODEL_DIR = None


def dates(**options):
    return gimlet.get_dataset("quickstart_dates", "train", LENGTHS, **dict(dict(batch_size=8, seed=1), **options))


def take(dataset, count):
    with contextlib.closing(iter(dataset)) as batches:
        return list(itertools.islice(batches, count))


def is_installed(name):
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


class Package(unittest.TestCase):

    def same(self, some, others):
        self.assertEqual(len(some), len(others))
        for one, other in zip(some, others):
            self.assertEqual(list(one), list(other))
            for name in one:
                numpy.testing.assert_array_equal(one[name], other[name])

    def refused(self, *words):
        return self.assertRaisesRegex(gimlet.GimletError, ".*".join(map(re.escape, words)))


class Datasets(Package):

    def test_batches_go_on_after_a_state(self):
        whole = take(dates(), 4)
        self.assertEqual(whole[0]["encoder_input_tokens"].shape, (8, 64))
        self.assertEqual(whole[0]["decoder_target_tokens"].dtype, numpy.int32)
        batches = iter(dates())
        self.same([next(batches), next(batches)], whole[:2])
        state = json.loads(json.dumps(batches.state))
        batches.close()
        self.same(take(dates(state=state), 2), whole[2:])
        with self.refused("it was saved for", "this is", "packed", "the same flags"):
            take(dates(state=state, pack=True), 1)

    def test_shards_have_the_rows_of_the_whole(self):
        epoch = dict(shuffle=False, num_epochs=1)
        whole = {row.tobytes() for batch in dates(**epoch) for row in batch["decoder_target_tokens"]}
        parts = [dates(num_shards=2, shard_index=index, **epoch) for index in range(2)]
        rows = [row.tobytes() for part in parts for batch in part for row in batch["decoder_target_tokens"]]
        self.assertTrue(set(rows) <= whole and len(rows) > 0.9 * len(whole))
        self.assertEqual(len(set(rows)), len(rows))
        self.assertEqual(next(iter(parts[0]))["decoder_target_tokens"].shape, (4, 32))

    def test_the_end_keeps_the_last_rows_if_asked(self):
        validation = gimlet.get_dataset("quickstart_dates", "validation", LENGTHS, batch_size=96, num_epochs=1, drop_remainder=False)
        lines = (ROOT / "runs/quickstart/data/dates.validation.jsonl").read_text().splitlines()
        self.assertEqual(sum(len(batch["decoder_target_tokens"]) for batch in validation), len(lines))

    def test_packed_rows_and_other_converters(self):
        packed = take(dates(pack=True), 1)[0]
        self.assertGreater(packed["decoder_segment_ids"].max(), 1)
        joined = gimlet.get_dataset("quickstart_dates", "train", LENGTHS, batch_size=2, feature_converter="PrefixLMFeatureConverter")
        self.assertEqual(take(joined, 1)[0]["decoder_input_tokens"].shape, (2, 96))

    def test_mistakes_are_the_program_s_words(self):
        with self.refused("no task or mixture", "quickstart_datez", "quickstart_dates"):
            take(gimlet.get_dataset("quickstart_datez"), 1)
        with self.refused("--task_feature_lengths names 'target'"):
            take(gimlet.get_dataset("quickstart_dates", lengths={"target": 3}), 1)

    def test_nothing_stays_behind_a_python_that_is_killed_or_interrupted(self):
        script = ("import gimlet, time\n"
                  "batches = iter(gimlet.get_dataset('quickstart_dates', lengths=%r, batch_size=8))\n"
                  "next(batches); print(batches._process._pipes.pid, flush=True); time.sleep(60)" % LENGTHS)
        for number, words in ((signal.SIGKILL, ""), (signal.SIGINT, "KeyboardInterrupt")):
            python = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            program = int(python.stdout.readline())
            python.send_signal(number)
            self.assertIn(words, python.communicate()[1])
            self.wait_for_end(program)

    def wait_for_end(self, process):
        end = time.monotonic() + 20
        stat = pathlib.Path(f"/proc/{process}/stat")
        while stat.exists() and ") Z " not in stat.read_text():
            self.assertLess(time.monotonic(), end, "the program goes on")
            time.sleep(0.02)

    @unittest.skipIf(VERSION is None, "a checkout has no version")
    def test_a_program_of_another_version_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "gimlet"
            program.write_text("#!/bin/sh\necho gimlet 9.9.9\n")
            program.chmod(0o755)
            environment = dict(os.environ, GIMLET_PROGRAM=str(program))
            done = subprocess.run([sys.executable, "-c", "import gimlet; gimlet.program()"], env=environment, capture_output=True, text=True)
        self.assertRegex(done.stderr, r"has version 9\.9\.9, and the Python package in .* install both from one wheel")

    @unittest.skipUnless(is_installed("torch.utils"), "torch is not installed")
    def test_torch_s_loader_reads_each_row_once(self):
        from torch.utils.data import DataLoader

        data = dates(shuffle=False, num_epochs=1).as_torch()
        self.assertEqual(type(pickle.loads(pickle.dumps(data))), type(data))
        # An iterator that is left open while workers are forked, each with a copy of it.
        next(iter(DataLoader(data, batch_size=None)))
        random = dates(seed=None, num_epochs=1).as_torch()
        for parts, workers in ((data, 0), (data, 2), (random, 2)):
            loader = DataLoader(parts, batch_size=None, num_workers=workers, timeout=60 if workers else 0)
            rows = [tuple(row.tolist()) for batch in loader for row in batch["decoder_target_tokens"]]
            self.assertEqual(len(rows[0]), 32)
            self.assertEqual((len(set(rows)), len(rows) > 2800), (len(rows), True))

    @unittest.skipUnless(is_installed("torch.utils"), "torch is not installed")
    def test_torch_s_state_is_for_one_iteration(self):
        data = dates(num_epochs=1, batch_size=500).as_torch()
        batches = iter(data)
        for _ in range(2):
            next(batches)
        again = dates(num_epochs=1, batch_size=500).as_torch()
        again.load_state_dict(data.state_dict())
        self.assertEqual(again.state_dict(), data.state_dict())
        self.assertEqual([len(list(again)) for _ in range(2)], [len(list(dates(num_epochs=1, batch_size=500))) - 2, len(list(dates(num_epochs=1, batch_size=500)))])

    @unittest.skipUnless(is_installed("jax"), "jax is not installed")
    def test_jax_gets_arrays_of_its_own(self):
        import jax

        [batch] = take(dates().as_jax(jax.sharding.SingleDeviceSharding(jax.devices()[0])), 1)
        self.assertIsInstance(batch["encoder_input_tokens"], jax.Array)
        numpy.testing.assert_array_equal(batch["encoder_input_tokens"], take(dates(), 1)[0]["encoder_input_tokens"])


class Trainers(Package):
    """Runs of `tests/e2e/t5x`, whose logs are those of T5X with batches of SeqIO; `gimlet train` repeats them there."""

    @unittest.skipUnless(is_installed("t5x") and is_installed("flax"), "T5X is not installed")
    def test_t5x_makes_the_same_steps_as_with_seqio(self):
        sys.path.insert(0, str(FOLDER_OF_T5X))
        import make_runs

        if not is_installed("airio"):
            make_runs.stand_in_for_modules_that_pypi_lacks()
        from t5x import utils

        [block] = re.findall(r"```python needs=t5x\n(.*?)\n```", (ROOT / "docs/python.md").read_text(), re.DOTALL)
        for name in ("unpacked", "packed"):
            run, files = make_runs.RUNS[name], {"train": str(FOLDER_OF_T5X / name / "examples.jsonl")}
            data = gimlet.get_dataset(
                name, "train", make_runs.LENGTHS, batch_size=make_runs.BATCH_SIZE, shuffle=False, pack=run["packed"], gin_file="examples.gin",
                search_paths=FOLDER_OF_T5X, gin_bindings=f"{name}/seqio.JsonLinesDataSource.split_to_filepattern = {files}")
            names = dict(data=data, batch=take(data, 1)[0], model=make_runs.make_model(run),
                         learning_rate_fn=utils.create_learning_rate_scheduler(**run["schedule"]))
            with tempfile.TemporaryDirectory() as folder, tarfile.open(FOLDER_OF_T5X / name / "checkpoint_0.tar.gz") as tar:
                tar.extractall(folder, filter="data")
                os.rename(f"{folder}/checkpoint_0", f"{folder}/checkpoint_1")  # T5X does not find a latest step of 0
                exec(block.replace('"model"', repr(folder)), names)
            names["batches"].close()
            log = json.loads((FOLDER_OF_T5X / name / "log.json").read_text())["metrics"]
            for found, expected in zip(map(make_runs.numbers, names["summaries"]), log):
                self.assertEqual(found.keys(), expected.keys())
                for key in found:
                    numpy.testing.assert_allclose(found[key], expected[key], rtol=1e-5, err_msg=f"{key} of {name}")


class Checkpoints(Package):

    def test_a_checkpoint_is_loaded_changed_and_saved(self):
        tree = gimlet.load_checkpoint(f"{MODEL_DIR}:last")
        self.assertEqual(int(tree["state"]["step"]), 3)
        kernel = tree["target"]["encoder"]["layers_0"]["attention"]["query"]["kernel"]
        kernel[:] = 7
        with tempfile.TemporaryDirectory() as folder:
            gimlet.save_checkpoint(f"{folder}/checkpoint_3", tree)
            again = gimlet.load_checkpoint(f"{folder}/checkpoint_3")
            self.assertTrue((again["target"]["encoder"]["layers_0"]["attention"]["query"]["kernel"] == 7).all())
            self.same([again["state"]["param_states"]["token_embedder"]["embedding"]], [tree["state"]["param_states"]["token_embedder"]["embedding"]])
            gin = MODEL_DIR / "config.gin"
            gimlet.save_checkpoint(f"{folder}/hf", tree, "hugging_face", gin_file=gin, vocabulary=ROOT / "runs/quickstart/data/botchan.model")
            other = gimlet.load_checkpoint(f"{folder}/hf", filter="^target/encoder/")
            self.assertEqual(list(other["target"]), ["encoder"])
            self.same([other["target"]["encoder"]["layers_0"]["attention"]["query"]], [{"kernel": kernel}])

    def test_mistakes(self):
        with self.refused("nowhere"):
            gimlet.load_checkpoint(MODEL_DIR / "nowhere")
        with self.assertRaisesRegex(ValueError, "`params/a` is in neither"):
            gimlet.save_checkpoint("x", {"params": {"a": numpy.zeros(1)}})
        with self.assertRaisesRegex(TypeError, "`target/a` is an array of complex"):
            gimlet.save_checkpoint("x", {"target": {"a": numpy.zeros(1, complex)}})


class Runs(Package):

    def test_metrics_have_a_row_for_each_step(self):
        train = gimlet.read_metrics(MODEL_DIR)["train"]
        self.assertEqual([row["step"] for row in train if "loss" in row][-1:], [3])
        with self.assertRaisesRegex(FileNotFoundError, "is not the folder of a run"):
            gimlet.read_metrics(ROOT / "python")

    def test_a_configuration_has_python_s_values(self):
        values = gimlet.parse_config(MODEL_DIR, bindings=["TRAIN_STEPS = 5"])
        self.assertEqual(values["TRAIN_STEPS"], 5)
        self.assertEqual(values["TASK_FEATURE_LENGTHS"], {"inputs": 128, "targets": 32})
        self.assertEqual(values["infer_eval/utils.DatasetConfig.batch_size"], gimlet.Macro("BATCH_SIZE"))
        self.assertEqual(str(values["utils.CheckpointConfig.save"]), "@utils.SaveCheckpointConfig()")
        with self.refused("there is no gin file `x.gin`"):
            gimlet.parse_config("x.gin")


class Pages(Package):

    def test_the_page_and_its_notebook_run_as_they_stand(self):
        page = (ROOT / "docs/python.md").read_text()
        notebook = json.loads((ROOT / "docs/python.ipynb").read_text())
        cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
        blocks = re.findall(r"```python\n(.*?)\n```", page, re.DOTALL)
        self.assertEqual(cells, blocks)
        with tempfile.TemporaryDirectory() as folder:
            os.symlink(MODEL_DIR, f"{folder}/model")
            os.symlink(ROOT / "runs", f"{folder}/runs")
            script = f"import os; os.chdir({folder!r})\n" + "\n".join(blocks)
            done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("(32, 64)", done.stdout)


class Models(Package):

    def test_a_model_answers_and_scores(self):
        with gimlet.Model(MODEL_DIR, gin_bindings="DROPOUT_RATE = 0.0") as model:
            [answer] = model.generate("the 7 of April 1957", max_tokens=4)
            self.assertLess(answer.score, 0)
            many = model.generate(["a", "b"], max_tokens=2, num_decodes=2, temperature=1.0, seed=3)
            self.assertEqual([len(answers) for answers in many], [2, 2])
            self.assertLess(model.score("a", "b"), 0)
            with self.refused("`inputs` has 1"):
                model.score(["a"], ["b", "c"])
            process = model._server
        self.assertFalse(process.is_alive())
        with self.refused("nowhere"):
            gimlet.Model(MODEL_DIR / "nowhere")

    def test_it_ends_with_a_python_that_is_killed(self):
        script = f"import gimlet, os; m = gimlet.Model({str(MODEL_DIR)!r}); print(m._server._pipes.pid, flush=True); os.kill(os.getpid(), 9)"
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        Datasets.wait_for_end(self, int(done.stdout))


if __name__ == "__main__":
    if sys.argv[1:2] != ["--model_dir"]:
        sys.exit(__doc__)
    MODEL_DIR = pathlib.Path(sys.argv[2]).resolve()
    os.chdir(ROOT)
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
