"""Runs functions of the user's modules for Gimlet (src/python): requests on standard input, answers on
what was standard output. Needs the standard library alone; NumPy, TensorFlow and SeqIO are asked for by
the functions that take them.

Each message is msgpack with its length before it as 64 bits. Lists of numbers are packed into extensions:
1 is int32, 2 int64, 3 float64, 4 an empty list of texts.
"""

import array
import contextlib
import functools
import importlib
import inspect
import itertools
import os
import random
import signal
import struct
import sys
import traceback

CODES = {1: "i", 2: "q", 3: "d"}


class Packed:
  """A list of numbers as it travels, or an empty list of texts."""

  def __init__(self, code, data):
    self.code, self.data = code, data

  def numbers(self):
    numbers = array.array(CODES.get(self.code, "q"))
    numbers.frombytes(self.data)
    if sys.byteorder == "big":
      numbers.byteswap()
    return numbers


# ---------------------------------------------------------------- msgpack, as much of it as is sent


def decode(data):
  return _decode(memoryview(data), 0)[0]


def _decode(data, at):
  tag = data[at]
  at += 1
  if tag < 0x80:
    return tag, at
  if tag < 0x90:
    return _decode_map(data, at, tag & 0x0F)
  if tag < 0xA0:
    return _decode_list(data, at, tag & 0x0F)
  if tag < 0xC0:
    return _decode_text(data, at, tag & 0x1F)
  if tag >= 0xE0:
    return tag - 0x100, at
  if tag in _CONSTANTS:
    return _CONSTANTS[tag], at
  if tag in _NUMBERS:
    layout = _NUMBERS[tag]
    return struct.unpack_from(layout, data, at)[0], at + struct.calcsize(layout)
  if tag in _FIXED_EXTENSIONS:
    return _decode_extension(data, at, _FIXED_EXTENSIONS[tag])
  layout, read = _SIZED[tag]
  size = struct.unpack_from(layout, data, at)[0]
  return read(data, at + struct.calcsize(layout), size)


def _decode_text(data, at, size):
  return str(data[at : at + size], "utf-8"), at + size


def _decode_bytes(data, at, size):
  return bytes(data[at : at + size]), at + size


def _decode_list(data, at, size):
  items = []
  for _ in range(size):
    item, at = _decode(data, at)
    items.append(item)
  return items, at


def _decode_map(data, at, size):
  entries = {}
  for _ in range(size):
    key, at = _decode(data, at)
    entries[key], at = _decode(data, at)
  return entries, at


def _decode_extension(data, at, size):
  return Packed(data[at], bytes(data[at + 1 : at + 1 + size])), at + 1 + size


_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}
_NUMBERS = {
    0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q",
    0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q",
}
_FIXED_EXTENSIONS = {0xD4: 1, 0xD5: 2, 0xD6: 4, 0xD7: 8, 0xD8: 16}
_SIZED = {
    0xC4: (">B", _decode_bytes), 0xC5: (">H", _decode_bytes), 0xC6: (">I", _decode_bytes),
    0xC7: (">B", _decode_extension), 0xC8: (">H", _decode_extension),
    0xC9: (">I", _decode_extension),
    0xD9: (">B", _decode_text), 0xDA: (">H", _decode_text), 0xDB: (">I", _decode_text),
    0xDC: (">H", _decode_list), 0xDD: (">I", _decode_list),
    0xDE: (">H", _decode_map), 0xDF: (">I", _decode_map),
}


def encode(value):
  out = []
  _encode(value, out)
  return b"".join(out)


def _encode(value, out):
  if value is None:
    out.append(b"\xc0")
  elif isinstance(value, bool):
    out.append(b"\xc3" if value else b"\xc2")
  elif isinstance(value, int):
    _encode_int(value, out)
  elif isinstance(value, float):
    out.append(struct.pack(">Bd", 0xCB, value))
  elif isinstance(value, (str, bytes, bytearray)):
    text = value.encode("utf-8") if isinstance(value, str) else bytes(value)
    text.decode("utf-8")  # Texts are UTF-8 on the other side.
    out.append(struct.pack(">BI", 0xDB, len(text)) + text)
  elif isinstance(value, Packed):
    out.append(struct.pack(">BIB", 0xC9, len(value.data), value.code) + value.data)
  elif isinstance(value, dict):
    out.append(struct.pack(">BI", 0xDF, len(value)))
    for key, item in value.items():
      _encode(str(key), out)
      _encode(item, out)
  elif hasattr(value, "to_list"):  # A ragged tensor.
    _encode(value.to_list(), out)
  elif hasattr(value, "dtype") and hasattr(value, "shape"):
    _encode_array(value, out)
  elif isinstance(value, (list, tuple, set, frozenset, range, array.array)):
    _encode_list(sorted(value) if isinstance(value, (set, frozenset)) else list(value), out)
  else:
    raise TypeError(f"a {type(value).__name__} cannot leave Python: {value!r}; expected numbers, texts,"
                    " lists, dicts or arrays")


def _encode_int(value, out):
  if -(2**63) <= value < 2**63:
    out.append(struct.pack(">Bq", 0xD3, value))
  elif 0 <= value < 2**64:
    out.append(struct.pack(">BQ", 0xCF, value))
  else:
    raise OverflowError(f"{value} does not fit in 64 bits")


def _packed(code, numbers):
  numbers = array.array(CODES[code], numbers)
  if sys.byteorder == "big":
    numbers.byteswap()
  return Packed(code, numbers.tobytes())


def _encode_list(items, out):
  kinds = {type(item) for item in items}
  if kinds == {int}:
    _encode(_packed(2, items), out)
  elif kinds == {float}:
    _encode(_packed(3, items), out)
  else:
    out.append(struct.pack(">BI", 0xDD, len(items)))
    for item in items:
      _encode(item, out)


def _encode_array(value, out):
  if hasattr(value, "numpy"):  # A tensor.
    value = value.numpy()
    if not hasattr(value, "dtype"):
      return _encode(value, out)
  kind = value.dtype.kind
  if kind not in "biufSUO" and value.dtype.name != "bfloat16":
    raise TypeError(f"an array of {value.dtype} cannot leave Python; expected numbers or texts")
  if len(value.shape) == 0:
    return _encode(value.item() if kind in "biufSUO" else float(value), out)
  if len(value.shape) > 1:
    return _encode_list(list(value), out)
  if kind in "SUO":
    return _encode(Packed(4, b"") if len(value) == 0 else value.tolist(), out)
  if kind in "biu":
    code = 1 if value.dtype.itemsize < 4 or value.dtype.name == "int32" else 2
    return _encode(Packed(code, value.astype("<i4" if code == 1 else "<i8").tobytes()), out)
  return _encode(Packed(3, value.astype("<f8").tobytes()), out)


# ---------------------------------------------------------------- values as functions take them


def plain(value):
  """Python's own types."""
  if isinstance(value, Packed):
    return [] if value.code == 4 else value.numbers().tolist()
  if isinstance(value, list):
    return [plain(item) for item in value]
  if isinstance(value, dict):
    return {key: plain(item) for key, item in value.items()}
  return value


def as_numpy(value):
  """NumPy's arrays, and texts as bytes, as SeqIO gives them."""
  import numpy as np

  value = plain(value)
  if isinstance(value, dict):
    return {key: as_numpy(item) for key, item in value.items()}
  if isinstance(value, str):
    return value.encode("utf-8")
  if isinstance(value, list) and value and isinstance(value[0], (str, list)):
    items = [as_numpy(item) for item in value]
    shapes = {getattr(item, "shape", ()) for item in items}
    if len(shapes) == 1 and shapes != {()}:
      return np.stack(items)
    made = np.empty(len(items), dtype=object)
    for index, item in enumerate(items):
      made[index] = item
    return made
  if isinstance(value, list):
    is_short = all(isinstance(i, int) and -2**31 <= i < 2**31 for i in value)
    return np.array(value, dtype=np.int32 if is_short else None)
  return np.int64(value) if isinstance(value, int) else value


def nested(record):
  """{"a/b": x} as {"a": {"b": x}}."""
  out = {}
  for key, value in record.items():
    *outer, name = key.split("/")
    inside = out
    for part in outer:
      inside = inside.setdefault(part, {})
      if not isinstance(inside, dict):
        raise ValueError(f"the record has both '{part}' and '{key}'")
    inside[name] = value
  return out


def flat(record, prefix=""):
  """{"a": {"b": x}} as {"a/b": x}, and a bare value as the feature without a name."""
  if not hasattr(record, "items"):
    return {"": record}
  out = {}
  for key, value in record.items():
    if isinstance(value, dict):
      out.update(flat(value, f"{prefix}{key}/"))
    else:
      out[f"{prefix}{key}"] = value
  return out


# ---------------------------------------------------------------- functions


class Placed(Exception):
  """An exception with its place: the index of the record that caused it, or "import"."""

  def __init__(self, place, cause):
    self.place, self.cause = place, cause


@contextlib.contextmanager
def finding():
  try:
    yield
  except BaseException as error:  # Modules may call sys.exit.
    raise Placed("import", error) from error


@functools.lru_cache(maxsize=None)
def module_of(name):
  with finding():
    return importlib.import_module(name)


def registered_task(request):
  module_of(request["module"])
  with finding():
    import seqio

    return seqio.TaskRegistry.get(request["task"])


def found(request):
  """Imports what a request names, and does nothing with it."""
  if request["part"] == "source" and "task" in request:
    registered_task(request)
  else:
    function_of(request)


def function_of(request):
  """The function that a request names, with its arguments."""
  if "task" in request:
    task = registered_task(request)
    part = request["part"]
    if part == "postprocess_fn":
      return task.postprocess_fn
    fn = getattr(task, part)[request["index"]]
  else:
    fn = module_of(request["module"])
    with finding():
      for name in request["function"].split("."):
        fn = getattr(fn, name)
  kwargs = plain(request["kwargs"])
  return functools.partial(fn, **kwargs) if kwargs else fn


def parameters(fn):
  try:
    return inspect.signature(fn).parameters
  except (TypeError, ValueError):
    return {}


def given(fn, **known):
  """The function with those of the arguments that it takes."""
  seqio = sys.modules.get("seqio")
  if seqio is not None and hasattr(seqio.utils, "add_kwargs_to_transform"):
    return seqio.utils.add_kwargs_to_transform(fn, **known)
  known = {name: value for name, value in known.items() if name in parameters(fn)}
  return functools.partial(fn, **known) if known else fn


class Feature:
  """An output feature for functions that run without SeqIO."""

  def __init__(self, **fields):
    self.__dict__.update(fields)


def output_features(request):
  """The task's output features: its own, or made of what Gimlet knows of them."""
  if "task" in request:
    return registered_task(request).output_features
  features = plain(request["output_features"])
  try:
    import seqio
  except ImportError:
    return {name: Feature(**fields) for name, fields in features.items()}
  made = {}
  for name, fields in features.items():
    vocabulary = fields.pop("vocabulary")
    if not vocabulary["args"] and vocabulary["name"] not in ("ByteVocabulary",):
      raise ValueError(f"the vocabulary of '{name}' is a {vocabulary['name']}, which Gimlet cannot hand"
                       " over: name the function by `task`, whose own features it then takes")
    made[name] = seqio.Feature(
        vocabulary=getattr(seqio, vocabulary["name"])(**vocabulary["args"]),
        dtype=importlib.import_module("tensorflow").dtypes.as_dtype(fields.pop("dtype")),
        **fields)
  return made


def known_arguments(fn, request):
  """What SeqIO gives to preprocessors that ask for it."""
  known = {"sequence_length": plain(request["sequence_length"])}
  if "output_features" in parameters(getattr(fn, "map_fn", fn)):
    known["output_features"] = output_features(request)
  return known


def set_seeds(seed):
  random.seed(seed)
  if "numpy" in sys.modules:
    sys.modules["numpy"].random.seed(seed)


def over_records(request):
  """Each record through a function of a dict, which gives a dict, several of them, or None."""
  fn = function_of(request)
  takes_seed = "seed" in parameters(fn)
  fn = given(fn, **known_arguments(fn, request))
  out = []
  for index, (record, seed) in enumerate(zip(request["records"], request["seeds"])):
    set_seeds(seed)
    try:
      made = fn(plain(record), **({"seed": seed} if takes_seed else {}))
      for one in [] if made is None else [made] if hasattr(made, "items") else made:
        if not hasattr(one, "items"):
          raise TypeError(f"expected a dict, several of them or None, found {type(one).__name__}: {one!r}")
        out.append([index, flat(one)])
    except Exception as error:
      raise Placed(index, error) from error
  return out


def tensor_spec(tf, name, values):
  """The type of a feature, of its values in all records."""
  def look(value):
    if isinstance(value, Packed):
      return {1: tf.int32, 2: tf.int64, 3: tf.float32, 4: tf.string}[value.code], 1
    if isinstance(value, list):
      inner = [look(item) for item in value] or [(tf.int32, 0)]
      return merged(name, [dtype for dtype, _ in inner]), 1 + inner[0][1]
    return (tf.string if isinstance(value, str)
            else tf.float32 if isinstance(value, float) else tf.int64), 0

  def merged(name, dtypes):
    found = set(dtypes)
    if found <= {tf.int32, tf.int64}:
      return tf.int64 if tf.int64 in found else tf.int32
    if tf.string in found and len(found) > 1:
      raise ValueError(f"'{name}' is text in some records and numbers in others")
    return tf.string if tf.string in found else tf.float32

  looks = [look(value) for value in values]
  ranks = {rank for _, rank in looks}
  if len(ranks) > 1:
    raise ValueError(f"'{name}' has {min(ranks)} dimensions in some records and {max(ranks)} in others")
  return merged(name, [dtype for dtype, _ in looks]), ranks.pop()


def tensors_of(records, element):
  """A tf.data.Dataset of the records, or of their feature `element` where there is no other.

  Single whole numbers are int64, lists of them int32 where they fit, other numbers float32.
  Lists of lists are tensors where those of each record are of one length, else ragged tensors.
  """
  import tensorflow as tf

  names = list(records[0])
  for record in records:
    if set(record) != set(names):
      raise ValueError(f"records of one batch have different features: {sorted(names)} and"
                       f" {sorted(record)}; a dataset needs the same ones in each")
  signature, readers = {}, {}
  for name in names:
    values = [record[name] for record in records]
    dtype, rank = tensor_spec(tf, name, values)
    rows = [{len(row) for row in plain(value)} if rank > 1 else {0} for value in values]
    if all(len(lengths) < 2 for lengths in rows):
      signature[name] = tf.TensorSpec(shape=(None,) * rank, dtype=dtype)
      readers[name] = lambda value: plain(value)
    else:
      signature[name] = tf.RaggedTensorSpec(shape=(None,) * rank, dtype=dtype)
      readers[name] = functools.partial(lambda dtype, value: tf.ragged.constant(plain(value), dtype), dtype)

  def shaped(record):
    return record[element] if names == [element] else nested(record)

  def rows_of():
    for record in records:
      yield shaped({name: readers[name](record[name]) for name in names})

  return tf.data.Dataset.from_generator(rows_of, output_signature=shaped(signature))


def in_order(dataset):
  """The records of a dataset, one after the other: parallel maps with random values would differ."""
  if not hasattr(dataset, "as_numpy_iterator"):
    return iter(dataset)
  import tensorflow as tf

  options = tf.data.Options()
  options.deterministic = True
  options.threading.private_threadpool_size = 1
  return map(present, dataset.with_options(options))


def present(element):
  """An element without the features that are None, which tf.data allows."""
  if not isinstance(element, dict):
    return element
  return {name: present(value) for name, value in element.items() if value is not None}


def over_dataset(request):
  """Records through a function from dataset to dataset."""
  import tensorflow as tf

  seed = request["seeds"][0]
  set_seeds(seed)
  tf.random.set_seed(seed)
  fn = function_of(request)
  fn = given(fn, **known_arguments(fn, request))
  seqio = sys.modules.get("seqio")
  manager = getattr(getattr(seqio, "utils", None), "map_seed_manager", None)
  with manager(seed) if manager else contextlib.nullcontext():
    dataset = fn(tensors_of(request["records"], request["element"]))
  return [[None, flat(record)] for record in in_order(dataset)]


class Reading:
  """A source that is read on: which one, and how many records were read."""

  key, position, records = None, 0, iter(())


def source_records(request):
  """Records of a source from a position on; fewer than asked for at its end."""
  key = (request["module"], request.get("task"), request.get("function"), request["split"],
         repr(request["kwargs"]))
  position, count = request["position"], request["count"]
  if (Reading.key, Reading.position) != (key, position):
    Reading.key = None
    if "task" in request:
      source = registered_task(request).source
      read = functools.partial(source.get_dataset, split=request["split"], shuffle=False)
    else:
      read = functools.partial(function_of(request), split=request["split"], shuffle_files=False)
    # The module has imported what it draws random numbers with.
    set_seeds(0)
    if "tensorflow" in sys.modules:
      sys.modules["tensorflow"].random.set_seed(0)
    dataset = read()
    if hasattr(dataset, "skip"):
      Reading.records = in_order(dataset.skip(position))
    else:
      Reading.records = itertools.islice(in_order(dataset), position, None)
  made = [flat(record) for record in itertools.islice(Reading.records, count)]
  Reading.key, Reading.position = key, position + len(made)
  return made


def postprocessed(request):
  example = as_numpy(request["example"]) if request["as_numpy"] else plain(request["example"])
  fn = given(function_of(request))
  takes = parameters(fn)
  takes_any = any(p.kind == p.VAR_KEYWORD for p in takes.values())
  known = {"example": example, "is_target": request["is_target"]}
  return fn(request["text"], **{k: v for k, v in known.items() if takes_any or k in takes})


def metric(request):
  """A metric's values by key, as numbers."""
  values = function_of(request)(plain(request["targets"]), plain(request["predictions"]))
  out = {}
  for key, value in values.items():
    value = getattr(value, "value", value)
    try:
      out[str(key)] = float(value)
    except (TypeError, ValueError):
      raise TypeError(f"'{key}' is {value!r}, expected a number") from None
  return out


KINDS = {
    "find": found,
    "records": over_records,
    "dataset": over_dataset,
    "source": source_records,
    "postprocess": postprocessed,
    "metric": metric,
}


def is_internal(frame):
  """Whether a frame belongs to this script or to Python's import."""
  name = frame.tb_frame.f_code.co_filename
  return name == "gimlet_worker.py" or name.startswith("<frozen importlib") or name == importlib.__file__


def words_of(error):
  """The traceback from the user's code on."""
  frames = error.__traceback__
  while frames is not None and is_internal(frames):
    frames = frames.tb_next
  if frames is None:
    return "".join(traceback.format_exception_only(type(error), error))
  return "".join(traceback.format_exception(type(error), error, frames))


def answer(request):
  """[True, value, None], or [False, traceback, the record that caused it, or "import"]."""
  try:
    return encode([True, KINDS[request["kind"]](request), None])
  except BaseException as error:
    cause, place = (error.cause, error.place) if isinstance(error, Placed) else (error, None)
    return encode([False, words_of(cause), "import" if isinstance(cause, ImportError) else place])


def main():
  # Ctrl-C goes to all processes of a terminal: the run decides when its workers end.
  for name in ("SIGINT", "SIGHUP"):
    signal.signal(getattr(signal, name), signal.SIG_IGN)
  requests = sys.stdin.detach()
  answers = os.fdopen(os.dup(1), "wb")
  # What modules print would be taken for an answer.
  os.dup2(2, 1)
  sys.stdin = open(os.devnull)
  while True:
    size = requests.read(8)
    if len(size) < 8:
      # The threads of TensorFlow need not be waited for.
      os._exit(0)
    made = answer(decode(requests.read(struct.unpack("<Q", size)[0])))
    answers.write(struct.pack("<Q", len(made)) + made)
    answers.flush()


main()
