"""Writes variables that TensorFlow partitions into `sliced/`: their bundle holds them in slices.

Made with tensorflow 2.21.0 (python 3.11).
    python tests/pipeline/checkpoint/other/sliced.py
Element i of variable n is (crc32(n) % 128 + i) % 256, as TensorFlow itself reads it back.
"""

import os
import zlib

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1
PREFIX = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'sliced', 'model.ckpt')
# Shape, type and the number of slices along each axis.
VARIABLES = {
    'rows': ((10, 3), tf.float32, [3, 1]),
    'columns': ((4, 6), tf.bfloat16, [1, 2]),
    'middle': ((2, 5, 3), tf.float32, [1, 4, 1]),
    'long': ((200,), tf.float32, [3]),
    'whole': ((2, 2), tf.float32, None),
}


def value(name, shape):
  start = zlib.crc32(name.encode()) % 128
  return ((start + np.arange(np.prod(shape))) % 256).reshape(shape)


class Initial(tf1.initializers.zeros):
  """The values of a variable, or of the slice of it that is asked for."""

  def __init__(self, name, shape):
    self.all = value(name, shape)

  def __call__(self, shape, dtype=None, partition_info=None):
    first = partition_info.var_offset if partition_info else [0] * len(shape)
    part = tuple(slice(start, start + size) for start, size in zip(first, shape))
    return tf.cast(tf.constant(self.all[part]), dtype)


def variable(name):
  shape, dtype, slices = VARIABLES[name]
  partitioner = slices and (lambda **_: slices)
  initial = Initial(name, shape)
  tf1.get_variable(name, shape, dtype, initial, partitioner=partitioner, use_resource=False)


if __name__ == '__main__':
  os.makedirs(os.path.dirname(PREFIX), exist_ok=True)
  with tf.Graph().as_default(), tf1.Session() as session:
    for name in VARIABLES:
      variable(name)
    session.run(tf1.global_variables_initializer())
    tf1.train.Saver().save(session, PREFIX, write_meta_graph=False, write_state=False)
  reader = tf.train.load_checkpoint(PREFIX)
  for name, (shape, _, _) in VARIABLES.items():
    assert (reader.get_tensor(name).astype(np.int64) == value(name, shape)).all(), name
