"""Translates functions, vocabularies and features of SeqIO into gin, as far as Gimlet knows them.

The first half of the script that imports a module: `import_tasks.py` follows in the same file.
"""

import functools
import importlib
import inspect
import json
import math
import os
import re
import sys
import sysconfig
import traceback

LITERALS = (bool, int, float, str, type(None))
# t5 hands on SeqIO's functions, and the reverse.
PACKAGES = {"t5": "seqio"}
# Closures of SeqIO's `add_task_with_sentinels`, and what Gimlet calls them.
SENTINELS = {
    "_add_sentinels": "add_sentinels",
    "_append_eos_after_trim_and_preserve": "append_eos_after_trim_and_preserve",
    "_postprocess_fn_remove_sentinel": "remove_sentinels",
    "_wrap_postprocess_fn_remove_sentinel": "remove_sentinels",
}


class Untranslatable(Exception):
  """Why Gimlet has no counterpart of something."""


# ---------------------------------------------------------------- functions, taken apart


def taken_apart(fn):
  """The function within partials, and the arguments that they bind."""
  args = {}
  while isinstance(fn, functools.partial):
    if fn.args:
      raise Untranslatable("a partial binds arguments by position")
    args = {**fn.keywords, **args}
    fn = fn.func
  return fn, args


def inner(fn):
  """The function that was decorated: newer SeqIO keeps it in an object."""
  return getattr(fn, "map_fn", fn)


def described(fn):
  """(module:function, file:line) of a function or class, as far as it tells."""
  while isinstance(fn, functools.partial):
    fn = fn.func
  fn = inner(fn)
  name = f"{getattr(fn, '__module__', '?')}:{getattr(fn, '__qualname__', type(fn).__qualname__)}"
  if inspect.isclass(fn):
    try:
      return name, short((inspect.getsourcefile(fn), inspect.getsourcelines(fn)[1]))
    except (OSError, TypeError):
      return name, ""
  code = getattr(inspect.unwrap(fn) if callable(fn) else fn, "__code__", None)
  return name, short((code.co_filename, code.co_firstlineno)) if code else ""


def parameters(fn):
  try:
    return inspect.signature(inner(fn)).parameters
  except (TypeError, ValueError):
    return {}


def cells(fn):
  """What a closure holds, by name."""
  held = {}
  for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or ()):
    try:
      held[name] = cell.cell_contents
    except ValueError:
      pass
  return held


def is_literal(value):
  if isinstance(value, float):
    return math.isfinite(value)
  if isinstance(value, (list, tuple)):
    return all(map(is_literal, value))
  if isinstance(value, dict):
    return all(is_literal(item) for pair in value.items() for item in pair)
  return isinstance(value, LITERALS)


def is_hundredfold(fn):
  try:
    return all(abs(fn(x) - 100 * x) < 1e-9 for x in (0.0, 0.37, 1.0, -2.5))
  except Exception:
    return False


# ---------------------------------------------------------------- gin


def written(value):
  """A literal as gin writes it."""
  if hasattr(value, "item") and hasattr(value, "dtype"):
    value = value.item()
  if isinstance(value, float) and not math.isfinite(value):
    raise Untranslatable(f"{value} is not a literal")
  if isinstance(value, LITERALS):
    return repr(value)
  if isinstance(value, (list, tuple)):
    items = ", ".join(map(written, value))
    if isinstance(value, list):
      return f"[{items}]"
    return f"({items},)" if len(value) == 1 else f"({items})"
  if hasattr(value, "items"):
    return "{" + ", ".join(f"{written(k)}: {written(v)}" for k, v in value.items()) + "}"
  if isinstance(value, (range, set, frozenset)) or type(value).__name__ in ("odict_keys", "dict_keys"):
    return written(sorted(value))
  raise Untranslatable(f"a {type(value).__name__} is not a literal")


def listed(items):
  return "[]" if not items else "[\n" + "".join(f"    {item},\n" for item in items) + "  ]"


class File:
  """The blocks of a gin file, in the order in which they are needed."""

  def __init__(self, known, module):
    self.blocks, self.scopes, self.shared = [], set(), {}
    self.module, self.known = module, {}
    for slot, entries in known.items():
      for entry in entries:
        for name in [entry["name"], *entry["aliases"]]:
          self.known.setdefault((slot, *self.key(name)), entry)

  @staticmethod
  def key(name):
    """A known name: its package, and the name within its module."""
    parts = name.split(".")
    return PACKAGES.get(parts[0], parts[0]), parts[-1]

  def scope(self, name):
    """A scope that nothing else has."""
    scope = plain = re.sub(r"\W", "_", name) if not name[:1].isdigit() else "_" + re.sub(r"\W", "_", name)
    count = 1
    while scope in self.scopes:
      count += 1
      scope = f"{plain}_{count}"
    self.scopes.add(scope)
    return scope

  def block(self, scope, target, args):
    """Binds arguments, which are written already."""
    lines = [f"{scope}/{target}:"] + [f"  {name} = {value}" for name, value in args.items()]
    self.blocks.append("\n".join(lines))

  def reference(self, target, args, scope, called=True):
    suffix = "()" if called else ""
    if not args:
      return f"@{target}{suffix}"
    self.block(scope, target, args)
    return f"@{scope}/{target}{suffix}"

  def entry(self, slot, fn):
    """What Gimlet knows of a function, by its module and name."""
    module, name = getattr(fn, "__module__", None), getattr(fn, "__qualname__", "")
    if not module or "<" in name:
      return None
    return self.known.get((slot, *self.key(f"{module}.{name}")))

  def translated(self, slot, fn, scope, called):
    """A reference to Gimlet's counterpart of a function, with its arguments bound."""
    fn, args = taken_apart(fn)
    fn = inner(fn)
    entry = self.entry(slot, fn)
    if entry is None:
      entry, more = self.closure(slot, fn)
      args = {**more, **args}
    bound = {}
    for name, value in args.items():
      if name not in entry["params"]:
        raise Untranslatable(f"Gimlet's {entry['name']} has no parameter `{name}`")
      if entry["params"][name] is not None:
        bound[name] = self.argument(value, f"{scope}/{name}", slot, entry["params"][name] == "called")
    return self.reference(entry["name"], bound, scope, called)

  def closure(self, slot, fn):
    """The known function that made a closure, and the arguments that it holds."""
    name = getattr(fn, "__qualname__", "")
    unknown = Untranslatable("Gimlet does not know the function")
    if ".<locals>." not in name or not hasattr(fn, "__code__"):
      raise unknown
    outer, made = name.split(".<locals>.")[:2]
    if outer == "add_task_with_sentinels" and made in SENTINELS:
      return self.sentinels(self.known[(slot, *self.key(f"seqio.experimental.{SENTINELS[made]}"))], fn)
    entry = self.known.get((slot, *self.key(f"{fn.__module__}.{outer}")))
    if entry is None:
      raise unknown
    held = cells(fn)
    if outer == "sklearn_metrics_wrapper":
      return self.sklearn(slot, entry, held)
    maker = getattr(sys.modules.get(fn.__module__), outer, None)
    missing = [name for name in parameters(maker) if name in entry["params"] and name not in held]
    if missing:
      raise Untranslatable(f"the closure does not tell the `{missing[0]}` that it was made with")
    return entry, {name: value for name, value in held.items() if name in entry["params"]}

  @staticmethod
  def sentinels(entry, fn):
    """A step of a task with sentinels; the wrapped postprocessor holds their number one level below."""
    held = cells(fn)
    below = held.get("_postprocess_fn_remove_sentinel")
    held = {**(cells(below) if below else {}), **held}
    return entry, {name: value for name, value in held.items() if name in entry["params"]}

  def sklearn(self, slot, entry, held):
    """t5's wrapper of scikit-learn's metrics, or its F1 averaged over classes, which is one."""
    extra = dict(held.get("metric_fn_kwargs") or {})
    args = {k: v for k, v in held.items() if k in ("metric_str", "metric_dict_str") and v is not None}
    found = re.fullmatch(r"mean_(\d+)class_f1", held.get("metric_dict_str") or "")
    if found:
      count = int(found[1])
      macro = {"average": "macro", "beta": 1, "labels": list(range(count))}
      if {**extra, "labels": list(extra.get("labels") or ())} == macro:
        return self.known[(slot, *self.key("t5.evaluation.metrics.mean_multiclass_f1"))], {"num_classes": count}
    unknown = sorted(set(extra) - set(entry["params"]))
    if unknown:
      raise Untranslatable(f"Gimlet's {entry['name']} has no parameter `{unknown[0]}`")
    args.update({name: list(v) if isinstance(v, range) else v for name, v in extra.items()})
    process = held.get("metric_post_process_fn")
    if process is not None and process(0.37) != 0.37:
      if not is_hundredfold(process):
        raise Untranslatable("its `metric_post_process_fn` is not a percentage")
      args["metric_post_process_fn"] = Written("@gimlet.metrics.percentage")
    return entry, args

  def argument(self, value, scope, slot, called):
    """An argument as gin writes it: a literal, a vocabulary, or a function, of the caller's slot first."""
    if isinstance(value, Written):
      return str(value)
    if is_vocabulary(value):
      return self.vocabulary(value)
    if isinstance(value, (list, tuple)) and any(map(callable, value)):
      return listed([self.argument(item, f"{scope}{index}", slot, called) for index, item in enumerate(value)])
    if callable(value):
      for other in (slot, "function", "preprocessor", "metric", "postprocessor"):
        try:
          return self.translated(other, value, scope, called)
        except Untranslatable:
          continue
      raise Untranslatable(f"its argument {described(value)[0]} is a function that Gimlet does not know")
    return written(value)

  # -------------------------------------------------------------- vocabularies and features

  def once(self, kind, key, make):
    """Writes what several tasks share once."""
    if (kind, key) not in self.shared:
      scope = self.scope(f"{self.module.replace('.', '_')}_{kind}")
      self.shared[(kind, key)] = make(scope)
    return self.shared[(kind, key)]

  def vocabulary(self, vocabulary):
    """A reference to a vocabulary."""
    name = type(vocabulary).__name__
    if ("vocabulary", *self.key(f"seqio.{name}")) not in self.known:
      raise Untranslatable(f"Gimlet has no vocabulary {name}")
    attributes = {
        "SentencePieceVocabulary": ("sentencepiece_model_file", "extra_ids", "reverse_extra_ids"),
        "ByteVocabulary": ("extra_ids",),
        "PassThroughVocabulary": ("size", "eos_id"),
    }.get(name)
    if attributes is None:
      raise Untranslatable(f"the arguments of {name} are not known from the object")
    defaults = {"extra_ids": 0, "reverse_extra_ids": True, "eos_id": None}
    args = {}
    for attribute in attributes:
      value = getattr(vocabulary, f"_{attribute}", defaults.get(attribute))
      if attribute not in defaults or value != defaults[attribute]:
        args[attribute] = written(value)
    rules = getattr(vocabulary, "_normalizer_spec_overrides", None)
    if rules is not None:
      args["normalizer_spec_overrides"] = tuple((f.name, v) for f, v in rules.ListFields())
    def make(scope):
      if "normalizer_spec_overrides" in args:
        rules = {name: written(value) for name, value in args["normalizer_spec_overrides"]}
        target = "sentencepiece_model_pb2.NormalizerSpec"
        args["normalizer_spec_overrides"] = self.reference(target, rules, scope)
      return self.reference(f"seqio.{name}", args, scope)
    return self.once("vocabulary", (name, *args.items()), make)

  def feature(self, feature):
    """A reference to an output feature."""
    is_continuous = type(feature).__name__ == "ContinuousFeature"
    args = {}
    vocabulary = feature.vocabulary
    is_default = is_continuous and type(vocabulary).__name__ == "PassThroughVocabulary" and (
        getattr(vocabulary, "_size", 0) == 0)
    if not is_default:
      args["vocabulary"] = self.vocabulary(vocabulary)
    dtype = getattr(feature.dtype, "name", str(feature.dtype))
    if dtype not in ("int32", "int64", "float32"):
      raise Untranslatable(f"Gimlet has no features of {dtype}")
    for name, value, default in (
        ("add_eos", feature.add_eos, not is_continuous), ("required", feature.required, True),
        ("dtype", dtype, "int32"), ("rank", getattr(feature, "rank", 1), 1)):
      if value != default:
        args[name] = written(value)
    target = "seqio.ContinuousFeature" if is_continuous else "seqio.Feature"
    return self.once("feature", (target, *args.items()), lambda scope: self.reference(target, args, scope))


class Written(str):
  """What is gin already."""


def is_vocabulary(value):
  return type(value).__name__.endswith("Vocabulary") and hasattr(value, "encode")
