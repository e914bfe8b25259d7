"""Functions of plain Python that tests have tasks call."""

import os
import random
import subprocess


def shout(record, mark="!"):
  print("what is printed is no answer")
  return {**record, "targets": record["targets"].upper() + mark}


def none_or_several(record):
  """As many records as the text has characters, modulo 3."""
  count = len(record["targets"]) % 3
  return [{**record, "targets": record["targets"] + str(i)} for i in range(count)] or None


def piped(record):
  """What another program makes of a standard input that nobody gave it."""
  made = subprocess.run(["cat"], capture_output=True, text=True, check=True).stdout
  return {**record, "targets": record["targets"] + made}


def noisy(record, seed):
  return {**record, "targets": f"{record['targets']} {seed} {random.randrange(10**9)}"}


def told(record, sequence_length, output_features):
  feature = output_features["other"]
  words = [sequence_length, type(feature.vocabulary).__name__, feature.dtype.name, feature.rank]
  return {**record, "targets": " ".join(map(str, words))}


def picky(record):
  if record["targets"] == "bad":
    raise ValueError("this record is bad")
  return record


def mortal(record, folder):
  """Kills its process once."""
  mark = os.path.join(folder, "died")
  if not os.path.exists(mark):
    open(mark, "w").close()
    os.kill(os.getpid(), 9)
  return record


def deadly(record):
  os._exit(3)


def wrong(record):
  return {**record, "targets": None}


def made(split, shuffle_files, count=5):
  """A source: so many records of a split."""
  assert not shuffle_files
  for number in range(count):
    yield {"inputs": str(number // 7), "from": {"split": split}, "targets": str(number)}


def label(text, example, is_target):
  return {"text": text, "answers": example["answers"] if is_target else []}


def shares(targets, predictions, times=1):
  right = sum(target == prediction for target, prediction in zip(targets, predictions))
  return {"right": right / len(targets) * times, "none": float("nan")}


def counted(record, folder):
  """Leaves the number of its process behind."""
  open(os.path.join(folder, f"step-{os.getpid()}"), "w").close()
  return record


def counted_source(split, shuffle_files, folder):
  """40 records, which leave the numbers of their process and of the epoch behind."""
  open(os.path.join(folder, f"source-{os.getpid()}"), "w").close()
  open(os.path.join(folder, f"epoch-{len(os.listdir(folder))}"), "w").close()
  for number in range(40):
    yield {"inputs": str(number), "targets": str(number)}
