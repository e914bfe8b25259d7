"""Writes the checkpoints beside this file with the libraries that T5X uses.

Made with orbax-checkpoint 0.12.8, tensorstore 0.1.86, jax, numpy 2.4.6 (python 3.11):
    python tests/pipeline/checkpoint/orbax/fixtures.py
Folders are named for how Orbax was told to write; `codecs` (zarr version 3) and `deep`, `numbered`
(OCDBT) are what TensorStore may write beyond that. Element i of an array is (i % 97) / 2.
"""

import json
import os
import shutil

import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import tensorstore as ts

HERE = os.path.dirname(os.path.abspath(__file__))


def array(shape, dtype):
  values = np.arange(np.prod(shape, dtype=int)).reshape(shape)
  return (values % 97 / 2).astype(dtype)


def tree():
  kernel = {'kernel': jnp.asarray(array((6, 4), np.float32))}
  scale = {'scale': jnp.asarray(array((6,), np.float32)).astype(jnp.bfloat16)}
  return {
      'target': {'encoder': {'layers_0': {'key': kernel}, 'norm': scale}},
      'state': {
          'step': jnp.asarray(3, jnp.int32),
          'param_states': {
              'encoder': {
                  'layers_0': {'key': {'kernel': {
                      'v_row': array((4,), np.float32), 'v_col': array((6,), np.float32),
                      'm': np.zeros((1,), np.float32),
                  }}},
                  'norm': {'scale': {'v': array((6,), np.float32)}},
              }
          },
      },
      'flax_mutables': {}, 'none': None, 'name': 'a text',
  }


def fresh(name):
  folder = os.path.join(HERE, name)
  shutil.rmtree(folder, ignore_errors=True)
  os.makedirs(folder)
  return folder


def tidy(folder):
  for path, _, files in os.walk(folder):
    for file in files:
      if file == 'commit_success.txt':  # it tells where the folder was
        os.remove(os.path.join(path, file))


def orbax(name, **options):
  folder = fresh(name)
  handler = ocp.PyTreeCheckpointHandler(**options)
  ocp.Checkpointer(handler).save(os.path.join(folder, 'checkpoint_3', 'state'), tree())
  tidy(folder)


def managed():
  folder = fresh('managed')
  options = ocp.CheckpointManagerOptions(step_prefix='checkpoint')
  manager = ocp.CheckpointManager(folder, item_names=('state',), options=options)
  for step in (3, 5):
    manager.save(step, args=ocp.args.Composite(state=ocp.args.PyTreeSave(tree())))
  manager.wait_until_finished()
  tidy(folder)


def aggregated():
  """As before there was `_METADATA`: placeholders in a msgpack file."""
  from flax import serialization
  shutil.copytree(os.path.join(HERE, 'files'), fresh('aggregated'), dirs_exist_ok=True)
  folder = os.path.join(HERE, 'aggregated', 'checkpoint_3', 'state')
  for name in ('_METADATA', '_sharding', 'array_metadatas'):
    path = os.path.join(folder, name)
    shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)

  def placeholders(node, path=()):
    if isinstance(node, dict):
      return {key: placeholders(child, path + (key,)) for key, child in node.items()}
    return 'PLACEHOLDER://' + '.'.join(path) if hasattr(node, 'dtype') else node
  with open(os.path.join(folder, 'checkpoint'), 'wb') as f:
    state = placeholders(tree())
    slots = state['state']['param_states']['encoder']['norm']['scale']
    slots['inline'] = array((3,), np.float32)
    f.write(serialization.msgpack_serialize(state))


def metadata(folder, names):
  """The tree of names as Orbax writes it."""
  def leaf(name):
    keys = name.split('.')
    return str(tuple(keys)), {
        'key_metadata': [{'key': key, 'key_type': 2} for key in keys],
        'value_metadata': {'value_type': 'jax.Array', 'skip_deserialize': False},
    }
  with open(os.path.join(folder, '_METADATA'), 'w') as f:
    json.dump({'tree_metadata': dict(map(leaf, names))}, f)


def codecs():
  folder = os.path.join(fresh('codecs'), 'checkpoint_5')
  little = {'name': 'bytes', 'configuration': {'endian': 'little'}}
  crc = {'name': 'crc32c'}
  zstd = {'name': 'zstd', 'configuration': {'level': 1}}
  gzip = {'name': 'gzip', 'configuration': {'level': 1}}
  blosc = {'name': 'blosc', 'configuration': {
      'cname': 'lz4', 'clevel': 5, 'shuffle': 'bitshuffle', 'typesize': 4, 'blocksize': 0}}

  def shards(codecs, chunk_shape, **options):
    return [{'name': 'sharding_indexed', 'configuration': {
        'chunk_shape': chunk_shape, 'codecs': codecs, 'index_codecs': [little, crc], **options}}]

  def write(name, shape, chunks, codecs, dtype='float32', parts=None, **more):
    spec = {
        'driver': 'zarr3', 'kvstore': {'driver': 'file', 'path': os.path.join(folder, 'target.' + name)},
        'metadata': {
            'shape': shape, 'data_type': dtype, 'codecs': codecs,
            'chunk_grid': {'name': 'regular', 'configuration': {'chunk_shape': chunks}}, **more,
        },
    }
    store = ts.open(spec, create=True).result()
    value = np.asarray(array(shape, store.dtype.numpy_dtype))
    where = ... if parts is None else parts
    store[where] = value[where]
    names.append('target.' + name)

  names = []
  write('plain', (5, 7), (2, 3), [little])
  write('gzip', (5, 7), (2, 3), [little, gzip, crc])
  write('blosc', (50, 7), (20, 7), [little, blosc])
  write('transposed', (3, 4, 5), (2, 3, 5), [
      {'name': 'transpose', 'configuration': {'order': [1, 2, 0]}}, little, zstd])
  write('sharded', (10, 9), (4, 6), shards([little, zstd], [2, 3]))
  write('first', (10, 9), (10, 9), shards([little], [5, 3], index_location='start'))
  write('half', (8, 6), (4, 6), shards([little, zstd], [2, 3]), fill_value=7.5, parts=(slice(0, 2),))
  write('int8', (5, 7), (5, 7), [{'name': 'bytes'}, zstd], dtype='int8')
  write('uint16', (5, 7), (2, 3), [little, zstd], dtype='uint16')
  write('bfloat16', (5, 7), (2, 3), [little, zstd], dtype='bfloat16', chunk_key_encoding={
      'name': 'v2', 'configuration': {'separator': '.'}})
  write('scalar', (), (), [little], dtype='float64')
  metadata(folder, names)


def ocdbt(name, count, config):
  """A database with small nodes."""
  folder = os.path.join(fresh(name), 'checkpoint_5', 'state')
  names = [f'target.layers_{i}.kernel' for i in range(count)]
  context = ts.Context()
  for number, array_name in enumerate(names):
    spec = {'driver': 'zarr', 'kvstore': {'driver': 'memory', 'path': array_name + '/'},
            'metadata': {'shape': [number, 3], 'chunks': [4, 3], 'dtype': '<f4'}}
    ts.open(spec, create=True, context=context).result()[...] = array((number, 3), np.float32)
  memory = ts.KvStore.open('memory://', context=context).result()
  store = ts.KvStore.open({
      'driver': 'ocdbt', 'base': 'file://' + folder + '/', 'config': config,
  }).result()
  with ts.Transaction() as transaction:
    for key in memory.list().result():
      store.with_transaction(transaction)[key] = memory[key]
  metadata(folder, names)


if __name__ == '__main__':
  orbax('ocdbt', use_ocdbt=True)
  orbax('files', use_ocdbt=False)
  orbax('zarr3', use_ocdbt=True, use_zarr3=True)
  managed()
  aggregated()
  codecs()
  ocdbt('deep', 40, {'max_decoded_node_bytes': 400, 'max_inline_value_bytes': 60})
  ocdbt('numbered', 3, {'manifest_kind': 'numbered', 'compression': None})
