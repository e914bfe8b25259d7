"""As much of TensorFlow as Gimlet's worker asks for, over Python's own values. Names are TensorFlow's."""

import types


class DType:

  def __init__(self, name):
    self.name = name


int32, int64, float32, string = map(DType, ("int32", "int64", "float32", "string"))


class TensorSpec:

  def __init__(self, shape, dtype):
    self.shape, self.dtype = shape, dtype


class Options:

  def __init__(self):
    self.threading = types.SimpleNamespace()


class Dataset:

  def __init__(self, make):
    self.make = make

  @staticmethod
  def from_generator(generator, output_signature):
    del output_signature
    return Dataset(generator)

  def map(self, fn, num_parallel_calls=None):
    return Dataset(lambda: (fn(x) for x in self.make()))

  def filter(self, fn):
    return Dataset(lambda: (x for x in self.make() if fn(x)))

  def skip(self, count):
    return Dataset(lambda: (x for index, x in enumerate(self.make()) if index >= count))

  def with_options(self, options):
    return self

  def as_numpy_iterator(self):
    return iter(self.make())

  def __iter__(self):
    return iter(self.make())

  @staticmethod
  def sample_from_datasets(datasets, weights=None, seed=None, stop_on_empty_dataset=False):
    raise NotImplementedError


dtypes = types.SimpleNamespace(as_dtype=DType)
data = types.SimpleNamespace(Dataset=Dataset, Options=Options)
random = types.SimpleNamespace(set_seed=lambda seed: None)
