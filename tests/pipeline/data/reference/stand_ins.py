"""Lets modules of a package be imported without the package itself, which imports what they do not need."""

import importlib.util
import os
import sys
import types

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"


def stand_in(names, folder):
  """Puts empty packages in the place of those in a folder; their modules are found there."""
  for name in names:
    module = types.ModuleType(name)
    module.__path__ = [os.path.join(folder, *name.split("."))]
    sys.modules[name] = module


def stand_in_for_t5():
  """The t5 package itself imports Mesh TensorFlow."""
  base = importlib.util.find_spec("t5").submodule_search_locations[0]
  stand_in(("t5", "t5.data", "t5.evaluation"), os.path.dirname(base))
