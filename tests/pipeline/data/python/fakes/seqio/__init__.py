"""The parts of SeqIO 0.0.20 that hold what tasks are made of, under the names of its attributes. Tests use
it in place of SeqIO; `lab/tasks.py` imports the same with the real one."""

import contextlib
import functools
import types

import tensorflow as tf

__version__ = "0.0.20"


class Vocabulary:

  def __init__(self, extra_ids=0):
    self._extra_ids = extra_ids

  def encode(self, text):
    raise NotImplementedError


class SentencePieceVocabulary(Vocabulary):

  def __init__(self, sentencepiece_model_file, extra_ids=0, normalizer_spec_overrides=None,
               reverse_extra_ids=True):
    self._sentencepiece_model_file = sentencepiece_model_file
    self._normalizer_spec_overrides = normalizer_spec_overrides
    self._reverse_extra_ids = reverse_extra_ids
    super().__init__(extra_ids)


class ByteVocabulary(Vocabulary):
  pass


class PassThroughVocabulary(Vocabulary):

  def __init__(self, size, eos_id=None):
    self._size, self._eos_id = size, eos_id
    super().__init__()


class Feature:

  def __init__(self, vocabulary, add_eos=True, required=True, dtype=tf.int32, rank=1):
    self.vocabulary, self.add_eos, self.required = vocabulary, add_eos, required
    self.dtype, self.rank = dtype, rank


class ContinuousFeature(Feature):

  def __init__(self, vocabulary=None, add_eos=False, **fields):
    super().__init__(vocabulary or PassThroughVocabulary(size=0), add_eos, **fields)


class DataSource:

  def __init__(self, splits, num_input_examples=None):
    self._splits = tuple(splits)
    self._num_input_examples = num_input_examples

  @property
  def splits(self):
    return self._splits


class TfdsDataSource(DataSource):

  def __init__(self, tfds_name, tfds_data_dir=None, splits=None):
    if splits and not isinstance(splits, dict):
      splits = {name: name for name in splits}
    self._tfds_dataset = types.SimpleNamespace(
        _name=tfds_name, _data_dir=tfds_data_dir, _split_map=splits, _decoders=None)
    super().__init__(splits or ())


class TextLineDataSource(DataSource):

  def __init__(self, split_to_filepattern, skip_header_lines=0, num_input_examples=None,
               cycle_length=16, block_length=16):
    self._split_to_filepattern = split_to_filepattern
    self._skip_header_lines = skip_header_lines
    self._cycle_length, self._block_length = cycle_length, block_length
    super().__init__(split_to_filepattern, num_input_examples)


class FunctionDataSource(DataSource):

  def __init__(self, dataset_fn, splits, num_input_examples=None, caching_permitted=True):
    self._dataset_fn = dataset_fn
    super().__init__(splits, num_input_examples)

  def get_dataset(self, split, shuffle=True):
    return self._dataset_fn(split=split, shuffle_files=shuffle)


class CacheDatasetPlaceholder:

  def __init__(self, required=False):
    self._required = required

  @property
  def required(self):
    return self._required


class Task:

  def __init__(self, name, source, output_features, preprocessors=(), postprocess_fn=None,
               metric_fns=(), shuffle_buffer_size=1000):
    self.name, self.source = name, source
    self.output_features = dict(sorted(output_features.items()))
    self.preprocessors, self.metric_fns = list(preprocessors), list(metric_fns)
    self._postprocess_fn, self.shuffle_buffer_size = postprocess_fn, shuffle_buffer_size

  def postprocess_fn(self, decoded_model_output, **kwargs):
    return self._postprocess_fn(decoded_model_output, **kwargs)


class Mixture:

  def __init__(self, name, tasks, default_rate=None):
    self.name = name
    pairs = [(task, default_rate) if isinstance(task, str) else task for task in tasks]
    self._task_to_rate = dict(pairs)
    self._sample_fn = functools.partial(tf.data.Dataset.sample_from_datasets, stop_on_empty_dataset=True)


class TaskRegistry:
  _REGISTRY = {}
  _PROVIDER = Task

  @classmethod
  def add(cls, name, *args, **kwargs):
    cls._REGISTRY[name] = cls._PROVIDER(name, *args, **kwargs)

  @classmethod
  def get(cls, name):
    return cls._REGISTRY[name]

  @classmethod
  def names(cls):
    return cls._REGISTRY.keys()


class MixtureRegistry(TaskRegistry):
  _REGISTRY = {}
  _PROVIDER = Mixture


class _GrainMapFn:

  def __init__(self, map_fn):
    self.map_fn = map_fn

  def __call__(self, dataset, *args, **kwargs):
    return dataset.map(lambda x: self.map_fn(x, *args, **kwargs))


def map_over_dataset(fn):
  return _GrainMapFn(fn)


NEXT_MAP_SEED = [None]


@contextlib.contextmanager
def map_seed_manager(initial_seed=None):
  NEXT_MAP_SEED[0] = initial_seed
  yield


utils = types.SimpleNamespace(map_over_dataset=map_over_dataset, map_seed_manager=map_seed_manager)

from seqio import preprocessors  # pylint: disable=g-import-not-at-top
