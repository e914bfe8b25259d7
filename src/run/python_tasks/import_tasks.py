"""Writes the tasks and mixtures that a module registers with SeqIO as a task file of Gimlet.

Runs in the user's Python, by `gimlet task import MODULE` and by runs that import a module. Standard input is JSON:

  module  the module to import
  names   the tasks and mixtures to write; all of the module if empty
  imported_with  the interpreter to name for functions that run in Python, or null
  known   what Gimlet knows, by slot ("preprocessor", "metric", ...): for each function its gin name and
          the parameters that gin may bind, with whether a function bound to it is called: {"name", "params"}

Standard output is JSON: the gin text, what was written, and what could not be translated; or the traceback of a
failed import. Functions that
Gimlet knows are written by their name. Others run where they live: in workers of this Python.
"""

# pylint: disable=undefined-variable
# `translate.py` stands before this file.

# ---------------------------------------------------------------- who registered what, and where


class Recording(dict):
  """A registry that notes which module registered a name: the innermost one that was being imported."""

  def __init__(self, registry):
    super().__init__(registry)
    self.places = {}

  def __setitem__(self, name, provider):
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != "<module>":
      frame = frame.f_back
    if frame is not None:
      self.places[name] = (frame.f_globals.get("__name__"), frame.f_code.co_filename, frame.f_lineno)
    super().__setitem__(name, provider)


def short(place):
  return f"{os.path.basename(place[0])}:{place[1]}"


# ---------------------------------------------------------------- tasks


class Importer:
  """Writes tasks and mixtures, and notes what has no counterpart."""

  def __init__(self, known, module, imported_with):
    self.file, self.module, self.imported_with = File(known, module), module, imported_with
    self.notes = []
    self.counts = {"tasks": 0, "mixtures": 0, "python": 0, "left_out": 0}

  def note(self, task, part, fn, reason, remedy, count):
    name, place = described(fn) if fn is not None else ("", "")
    self.counts[count] += 1
    self.notes.append({"task": task, "part": part, "function": name, "place": place,
                       "reason": str(reason), "remedy": remedy, "is_left_out": count == "left_out"})

  def place_of(self, fn, needs_task):
    """The parameters that name a function for a worker; None where only its task leads to it."""
    try:
      fn, args = taken_apart(fn)
    except Untranslatable:
      return None
    module, name = getattr(inner(fn), "__module__", None), getattr(inner(fn), "__qualname__", "")
    has_tuple = "(" in json.dumps(args, default=lambda _: "(") or any(
        isinstance(value, tuple) for value in args.values())
    if needs_task or not module or module == "__main__" or has_tuple or not is_literal(args):
      return None
    found = sys.modules.get(module)
    for part in name.split("."):
      found = getattr(found, part, None)
    if found is None or inner(found) is not inner(fn):
      return None
    return {"module": module, "function": name, **({"kwargs": args} if args else {})}

  def in_python(self, target, fn, task, scope, own, more, needs_task=False):
    """A reference that runs a function where it lives."""
    place = self.place_of(fn, needs_task) or {"module": self.module, "task": task.name, **own}
    args = {name: value if isinstance(value, Written) else written(value)
            for name, value in {**place, **more}.items()}
    self.name_interpreter(scope)
    return Written(self.file.reference(target, args, scope, target != "gimlet.metrics.python"))

  def name_interpreter(self, scope):
    """Has a function run in the interpreter that was given."""
    if self.imported_with is not None:
      self.file.block(scope, "gimlet.PythonWorkers", {"imported_with": written(self.imported_with)})

  # -------------------------------------------------------------- parts of a task

  def source(self, task, scope):
    source = task.source
    name = type(source).__name__
    try:
      make = getattr(self, f"source_{name}", None)
      if make is None:
        raise Untranslatable(f"Gimlet has no source {name}")
      target, args = make(source)
      counts = getattr(source, "_num_input_examples", None)
      if counts and target != "seqio.TfdsDataSource":
        args["num_input_examples"] = counts
      return self.file.reference(target, {k: written(v) for k, v in args.items()}, scope)
    except Untranslatable as reason:
      fn = getattr(source, "_dataset_fn", None)
      more = {"splits": list(source.splits)}
      if getattr(source, "_num_input_examples", None):
        more["num_input_examples"] = source._num_input_examples
      self.note(task.name, "source", fn or type(source), reason, "it is read in Python", "python")
      place = self.place_of(fn, False) if fn is not None else None
      if place is None:
        place = {"module": self.module, "task": task.name}
      elif "function" in place:
        place = {"dataset_fn" if k == "function" else k: v for k, v in place.items()}
      args = {k: written(v) for k, v in {**place, **more}.items()}
      self.name_interpreter(scope)
      return self.file.reference("seqio.FunctionDataSource", args, scope)

  def source_TfdsDataSource(self, source):
    loader = source._tfds_dataset
    if getattr(loader, "_decoders", None):
      raise Untranslatable("it has decoders of its own")
    args = {"tfds_name": loader._name}
    splits = getattr(loader, "_split_map", None)
    if not loader._name or splits and not all(isinstance(v, str) for v in splits.values()):
      raise Untranslatable("its splits are of several data sets")
    if splits:
      args["splits"] = list(splits) if all(k == v for k, v in splits.items()) else dict(splits)
    if getattr(loader, "_data_dir", None):
      args["tfds_data_dir"] = loader._data_dir
    return "seqio.TfdsDataSource", args

  def files(self, source):
    patterns = {k: v if isinstance(v, str) else list(v) for k, v in source._split_to_filepattern.items()}
    args = {"split_to_filepattern": patterns}
    for name in ("cycle_length", "block_length"):
      if getattr(source, f"_{name}", 16) != 16:
        args[name] = getattr(source, f"_{name}")
    return args

  def source_TextLineDataSource(self, source):
    args = self.files(source)
    if source._skip_header_lines:
      args["skip_header_lines"] = source._skip_header_lines
    return "seqio.TextLineDataSource", args

  def source_TFExampleDataSource(self, source):
    features = getattr(source, "feature_description", None)
    if features is None:
      raise Untranslatable("its features are not known from the object")
    made = {}
    for name, feature in features.items():
      kind, dtype = type(feature).__name__, getattr(feature.dtype, "name", str(feature.dtype))
      if kind == "FixedLenFeature" and feature.default_value is None and len(feature.shape) < 2:
        made[name] = (dtype, *feature.shape) if len(feature.shape) else dtype
      elif kind == "VarLenFeature" or kind == "FixedLenSequenceFeature" and not len(feature.shape):
        made[name] = (dtype, None)
      else:
        raise Untranslatable(f"its feature '{name}' is a {kind} of another kind")
    return "seqio.TFExampleDataSource", {**self.files(source), "feature_description": made}

  def source_FunctionDataSource(self, source):
    raise Untranslatable("it is a function")

  def preprocessor(self, task, index, fn, scope):
    if type(fn).__name__ == "CacheDatasetPlaceholder":
      args = {"required": "True"} if getattr(fn, "required", False) else {}
      return self.file.reference("seqio.CacheDatasetPlaceholder", args, scope)
    try:
      return self.file.translated("preprocessor", fn, scope, True)
    except Untranslatable as reason:
      self.note(task.name, f"step {index}", fn, reason, "it runs in Python", "python")
      more = {"over": "dataset"}
      if index == 0 and type(task.source).__name__ == "TextLineDataSource":
        more["element"] = "text"
      needs_task = "output_features" in parameters(taken_apart_or_same(fn))
      return self.in_python("gimlet.preprocessors.python", fn, task, scope, {"step": index}, more, needs_task)

  def postprocessor(self, task, fn, scope):
    try:
      return self.file.translated("postprocessor", fn, scope, True)
    except Untranslatable as reason:
      self.note(task.name, "postprocess_fn", fn, reason, "it runs in Python", "python")
      more = {"as_numpy": True}
      return self.in_python("gimlet.postprocessors.python", fn, task, scope, {}, more)

  def metric(self, task, index, fn, scope):
    try:
      return self.file.translated("metric", fn, scope, False)
    except Untranslatable as reason:
      takes = [name for name, parameter in parameters(fn).items() if parameter.default is parameter.empty]
      if takes[:2] == ["targets", "predictions"] and "aux_values" in takes:
        self.note(task.name, f"metric {index}", fn, "it takes aux_values", "it is left out", "left_out")
        return None
      self.note(task.name, f"metric {index}", fn, reason, "it runs in Python", "python")
      more = {"model_output": "score"} if "scores" in takes else {}
      return self.in_python("gimlet.metrics.python", fn, task, scope, {"index": index}, more)

  def task(self, task):
    scope = self.file.scope(task.name)
    args = {} if scope == task.name else {"name": written(task.name)}
    try:
      features = {name: self.file.feature(feature) for name, feature in task.output_features.items()}
    except Untranslatable as reason:
      remedy = "the task is left out: write it by hand with another vocabulary or type"
      return self.note(task.name, "output_features", None, reason, remedy, "left_out")
    args["source"] = self.source(task, f"{scope}/source")
    steps = [self.preprocessor(task, index, fn, f"{scope}/step{index}")
             for index, fn in enumerate(task.preprocessors)]
    if steps:
      args["preprocessors"] = listed(steps)
    args["output_features"] = "{" + ", ".join(f"{written(k)}: {v}" for k, v in features.items()) + "}"
    if task._postprocess_fn is not None:
      args["postprocess_fn"] = self.postprocessor(task, task._postprocess_fn, f"{scope}/postprocess")
    metrics = [self.metric(task, index, fn, f"{scope}/metric{index}")
               for index, fn in enumerate(task.metric_fns or ())]
    metrics = [metric for metric in metrics if metric is not None]
    if metrics:
      args["metric_fns"] = listed(metrics)
    for metric in getattr(task, "_metric_objs_constructor_args", ()):
      self.note(task.name, "metric_objs", metric, "it is an object", "it is left out: use metric_fns", "left_out")
    if task.shuffle_buffer_size != 1000:
      args["shuffle_buffer_size"] = written(task.shuffle_buffer_size)
    self.file.block(scope, "seqio.Task", args)
    self.file.blocks.append("")
    self.counts["tasks"] += 1

  def rate(self, rate, scope):
    if isinstance(rate, (int, float)) or hasattr(rate, "item"):
      return written(float(rate))
    return self.file.translated("rate", rate, scope, False)

  def mixture(self, mixture):
    scope = self.file.scope(mixture.name)
    args = {} if scope == mixture.name else {"name": written(mixture.name)}
    entries = []
    for name, rate in mixture._task_to_rate.items():
      try:
        entries.append(f"({written(name)}, {self.rate(rate, f'{scope}/rate{len(entries)}')})")
      except Untranslatable as reason:
        remedy = "the mixture is left out: write it by hand with a number, or a rate that Gimlet knows"
        return self.note(mixture.name, f"the rate of {name}", rate, reason, remedy, "left_out")
    args["tasks"] = listed(entries)
    try:
      sample, bound = taken_apart(getattr(mixture, "_sample_fn", None))
      if getattr(sample, "__name__", None) == "sample_from_datasets" and not bound.get("stop_on_empty_dataset"):
        args["sample_fn"] = "@tf.data.Dataset.sample_from_datasets"
      elif sample is not None and getattr(sample, "__name__", None) != "sample_from_datasets":
        raise Untranslatable("Gimlet does not know the function")
    except Untranslatable as reason:
      remedy = "examples are drawn at their rates until the first task ends"
      self.note(mixture.name, "sample_fn", mixture._sample_fn, reason, remedy, "left_out")
    self.file.block(scope, "seqio.Mixture", args)
    self.file.blocks.append("")
    self.counts["mixtures"] += 1


def taken_apart_or_same(fn):
  while isinstance(fn, functools.partial):
    fn = fn.func
  return fn


# ---------------------------------------------------------------- the module


class Failed(Exception):
  """An import that failed: the missing package of SeqIO's, or the module's own exception."""

  def __init__(self, missing, cause):
    self.missing, self.cause = missing, cause


def imported(name):
  try:
    return importlib.import_module(name)
  except BaseException as error:  # Modules may call sys.exit.
    missing = name == "seqio" and isinstance(error, ModuleNotFoundError) and error.name == name
    raise Failed(name if missing else None, error) from error


def from_the_module_on(error):
  """The traceback without the frames of this script and of Python's import."""
  frames = error.__traceback__
  while frames is not None:
    name = frames.tb_frame.f_code.co_filename
    if name != "import_tasks.py" and not name.startswith("<frozen importlib") and name != importlib.__file__:
      break
    frames = frames.tb_next
  if frames is None:
    return "".join(traceback.format_exception_only(type(error), error))
  return "".join(traceback.format_exception(type(error), error, frames))


def own_files(before):
  """The files of modules that were imported since, without those of installed packages and Python's own."""
  paths = sysconfig.get_paths()
  installed = {os.path.realpath(paths[name]) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
  files = set()
  for name in sorted(set(sys.modules) - before):
    file = getattr(sys.modules[name], "__file__", None)
    if file and not any(part in ("site-packages", "dist-packages") for part in file.split(os.sep)):
      real = os.path.realpath(file)
      if not any(real.startswith(path + os.sep) for path in installed):
        files.add(os.path.abspath(file))
  return sorted(files)


def run(request):
  module = request["module"]
  seqio = imported("seqio")
  registries = [seqio.TaskRegistry, seqio.MixtureRegistry]
  for registry in registries:
    registry._REGISTRY = Recording(registry._REGISTRY)
  before = set(sys.modules)
  imported(module)
  files = own_files(before)
  tasks, mixtures = (registry._REGISTRY for registry in registries)
  others, importer = [], Importer(request["known"], module, request["imported_with"])
  seen = set()
  for registry, write in ((tasks, importer.task), (mixtures, importer.mixture)):
    for name, provider in list(registry.items()):
      owner = registry.places.get(name, (None,))[0] or ""
      own = owner == module or owner.startswith(module + ".")
      seen.add(name)
      if name in request["names"] or own and not request["names"]:
        write(provider)
      elif not own and owner and owner not in others:
        others.append(owner)
  unknown = [name for name in request["names"] if name not in seen]
  imports = "".join(f"import {other}\n" for other in sorted(others))
  version = getattr(seqio, "__version__", None) or getattr(getattr(seqio, "version", None), "__version__", "")
  return {
      "gin": imports + ("\n" if imports else "") + "\n".join(importer.file.blocks).rstrip() + "\n",
      "version": str(version), "imports": sorted(others), "unknown": unknown,
      "notes": importer.notes, "counts": importer.counts, "files": files,
  }


def main():
  answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
  # What modules print is not the answer.
  os.dup2(2, 1)
  try:
    made = run(json.load(sys.stdin))
  except Failed as error:
    made = {"missing": error.missing, "traceback": from_the_module_on(error.cause)}
  json.dump(made, answers)
  answers.flush()
  os._exit(0)


main()
