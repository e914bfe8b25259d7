"""Writes the checkpoints beside this file with the libraries that T5X uses.

Made with tensorstore 0.1.86, flax 0.12.8, numpy 2.4.6 (python 3.11):
    python tests/pipeline/checkpoint/fixtures.py
`t5x/checkpoint_3` is what T5X would write; `foreign/checkpoint_4` has everything else that a reader
may meet. Element i of an array is i / 2 (bool: i is odd); in `packed/checkpoint_5`, every compressor,
type and order, it is (i % 97) / 2.
"""

import json
import os
import shutil

from flax import serialization
import ml_dtypes
import numpy as np
import tensorstore as ts

HERE = os.path.dirname(os.path.abspath(__file__))


def array(shape, dtype):
  values = np.arange(np.prod(shape, dtype=int)).reshape(shape)
  return (values % 2).astype(bool) if dtype == bool else (values / 2).astype(dtype)


def write(folder, name, value, old_path=False, **metadata):
  """Writes a zarr array and returns its spec as T5X stores it, with a relative path."""
  name = name.replace('/', '.')
  metadata = {
      'compressor': {'id': 'gzip'}, 'shape': value.shape, 'chunks': value.shape,
  } | metadata
  spec = ts.Spec({
      'driver': 'zarr', 'dtype': value.dtype.name, 'metadata': metadata,
      'kvstore': {'driver': 'file', 'path': name},
  }).to_json()
  absolute = json.loads(json.dumps(spec))
  absolute['kvstore']['path'] = os.path.join(folder, name)
  ts.open(absolute, create=True, open=True).result().write(value).result()
  if old_path:  # tensorstore < 0.1.14, on a bucket
    spec['kvstore'] = {'bucket': 't5x-dummy-bucket', 'driver': 'gcs'}
    spec['path'] = name
  return spec


def nest(leaves):
  tree = {}
  for name in sorted(leaves):
    *path, last = name.split('/')
    node = tree
    for key in path:
      node = node.setdefault(key, {})
    node[last] = leaves[name]
  return tree


def save(folder, leaves):
  tree = {'version': 3, 'optimizer': nest(leaves)}
  with open(os.path.join(folder, 'checkpoint'), 'wb') as f:
    f.write(serialization.msgpack_serialize(tree, in_place=True))


def fresh(name):
  folder = os.path.join(HERE, name)
  shutil.rmtree(folder, ignore_errors=True)
  os.makedirs(folder)
  return folder


def t5x():
  folder = fresh('t5x/checkpoint_3')
  kernel, slots = 'target/encoder/mlp/wi/kernel', 'state/param_states/encoder/mlp/wi/kernel/'
  scale, scale_slots = 'target/encoder/norm/scale', 'state/param_states/encoder/norm/scale/'
  dummy = np.zeros((1,), np.float32)
  save(folder, {
      kernel: write(folder, kernel, array((6, 4), np.float32)),
      scale: write(folder, scale, array((6,), np.float32)),
      slots + 'm': dummy,
      slots + 'v': dummy,
      slots + 'v_row': array((4,), np.float32),
      slots + 'v_col': array((6,), np.float32),
      scale_slots + 'm': dummy,
      scale_slots + 'v': write(folder, scale_slots + 'v', array((6,), np.float32)),
      scale_slots + 'v_row': dummy,
      scale_slots + 'v_col': dummy,
      'state/step': np.array(3, np.int32),
  })


def foreign():
  folder = fresh('foreign/checkpoint_4')
  serialization.MAX_CHUNK_SIZE = 32  # what flax does from 2^30 bytes on
  shape, chunks = (5, 7), (2, 3)
  zarr = {
      'padded': dict(value=array(shape, np.float32), chunks=chunks),
      'bfloat16': dict(value=array(shape, ml_dtypes.bfloat16), chunks=chunks),
      'rows': dict(value=array(shape, np.float64), chunks=(2, 7)),
      'cube': dict(value=array((3, 4, 5), np.int32), chunks=(2, 4, 2)),
      'zlib': dict(value=array(shape, np.float32), compressor={'id': 'zlib', 'level': 5}),
      'raw': dict(value=array(shape, np.int64), compressor=None, chunks=chunks),
      'nested': dict(value=array(shape, np.float16), chunks=chunks, dimension_separator='/'),
      'scalar': dict(value=array((), np.float32)),
      'bool': dict(value=array(shape, bool), chunks=chunks),
      'filled': dict(value=np.full(shape, 2.5, np.float32), fill_value=2.5, dtype='<f4', chunks=chunks),
      'old_path': dict(value=array(shape, np.float32), old_path=True),
  }
  leaves = {
      'target/' + name: write(folder, 'target/' + name, **args) for name, args in zarr.items()
  }
  save(folder, leaves | {
      'target/inline': array(shape, np.float32),
      'state/rng': array((2,), np.uint32),
      'state/step': np.int32(4),
      'state/1': {},
  })


def packed():
  folder = fresh('packed/checkpoint_5')
  shape, chunks = (60, 50), (40, 50)

  def cyclic(shape, dtype):
    return (np.arange(np.prod(shape, dtype=int)).reshape(shape) % 97 / 2).astype(dtype)

  blosc = {'id': 'blosc', 'clevel': 5, 'blocksize': 0}
  zarr = {
      f'blosc_{cname}_{shuffle}': dict(
          value=cyclic(shape, np.float32), chunks=chunks,
          compressor=blosc | {'cname': cname, 'shuffle': shuffle})
      for cname in ('blosclz', 'lz4', 'lz4hc', 'zlib', 'zstd') for shuffle in (0, 1, 2)
  } | {
      'blosc_blocks': dict(
          value=cyclic(shape, np.float64), chunks=(60, 50),
          compressor=blosc | {'cname': 'lz4', 'shuffle': 1, 'blocksize': 5000}),
      'blosc_bytes': dict(value=cyclic((30, 7), np.uint8), compressor=blosc | {
          'cname': 'lz4', 'shuffle': 2}),
      'blosc_stored': dict(
          value=cyclic((5, 7), np.float32), compressor=blosc | {'cname': 'lz4', 'clevel': 0, 'shuffle': 1}),
      'zstd': dict(value=cyclic(shape, np.float32), compressor={'id': 'zstd', 'level': 3}, chunks=chunks),
      'fortran': dict(value=cyclic((5, 6, 7), np.float32), chunks=(2, 6, 3), order='F'),
  } | {
      dtype: dict(value=cyclic((5, 7), dtype), chunks=(2, 3))
      for dtype in ('int8', 'uint8', 'int16', 'uint64', 'int32')
  }
  save(folder, {
      'target/' + name: write(folder, 'target/' + name, **args) for name, args in zarr.items()
  } | {'state/step': np.int32(5), 'state/complex': 1 + 2j})


if __name__ == '__main__':
  t5x()
  foreign()
  packed()
