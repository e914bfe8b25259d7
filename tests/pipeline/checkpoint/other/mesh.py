"""Writes a checkpoint as Mesh TensorFlow names its variables into `mesh/`, and what T5X makes of it.

Made with tensorflow 2.21.0, jax 0.10.2 and flax 0.12.8 (python 3.11); its argument is a copy of T5X's
`t5x/checkpoint_importer.py`, which yields `mesh/*.json`: for every array of T5X its shape and the
variable that it comes from, null for zeros.
    python tests/pipeline/checkpoint/other/mesh.py checkpoint_importer.py
`mesh/mtf_tiny_t5.index` is a file of T5X's own tests (`t5x/testdata/mtf_tiny_t5`).
Element i of variable n is (crc32(n) % 128 + i) % 256, a number that every type holds.
"""

import importlib.util
import json
import os
import sys
import zlib

import numpy as np
import tensorflow as tf

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'mesh')
EMB, JOINED, HEADS, MLP, VOCAB, BUCKETS = 6, 4, 2, 5, 10, 3


def value(name, shape):
  start = zlib.crc32(name.encode()) % 128
  return ((start + np.arange(np.prod(shape))) % 256).reshape(shape)


def shapes(per_layer, norm):
  found = {'shared/embedding': (VOCAB, EMB), 'decoder/logits/kernel': (EMB, VOCAB)}
  for stack, layers in [
      ('encoder', ['SelfAttention', 'DenseReluDense']),
      ('decoder', ['SelfAttention', 'EncDecAttention', 'DenseReluDense']),
  ]:
    found[f'{stack}/{norm if norm == "rms_norm" else "final_layer_norm"}/scale'] = (EMB,)
    for block in range(2):
      for i, kind in enumerate(layers):
        layer = f'{stack}/block_{block:03}/layer_{i:03}'
        found[f'{layer}/{norm}/scale'] = (EMB,)
        if kind == 'DenseReluDense':
          for wi in ['wi_0', 'wi_1'] if per_layer else ['wi']:
            found[f'{layer}/{kind}/{wi}/kernel'] = (EMB, MLP)
          found[f'{layer}/{kind}/wo/kernel'] = (MLP, EMB)
          continue
        for letter in 'qkv':
          found[f'{layer}/{kind}/{letter}'] = (EMB, JOINED)
        found[f'{layer}/{kind}/o'] = (JOINED, EMB)
        if kind == 'SelfAttention' and (per_layer or block == 0):
          found[f'{layer}/{kind}/relative_attention_bias'] = (HEADS, BUCKETS)
  return found


def save(prefix, per_layer, norm, slots, step, dtype):
  """Variables of the encoder in one file, those of the decoder in another."""
  with tf.Graph().as_default():
    variables = {}
    for name, shape in shapes(per_layer, norm).items():
      variables[name] = (shape, dtype)
      if slots and len(shape) == 2 and min(shape) > 3:
        variables[name + '_slot_vr'] = (shape[:1], tf.float32)
        variables[name + '_slot_vc'] = (shape[1:], tf.float32)
      elif slots:
        variables[name + '_slot_v'] = (shape, tf.float32)
    for name, (shape, kind) in variables.items():
      with tf.device('/cpu:1' if name.startswith('decoder') else '/cpu:0'):
        tf.compat.v1.get_variable(name, initializer=tf.cast(tf.constant(value(name, shape)), kind))
    with tf.device('/cpu:0'):
      tf.compat.v1.get_variable('global_step', initializer=tf.constant(step, tf.int64))
    config = tf.compat.v1.ConfigProto(device_count={'CPU': 2})
    with tf.compat.v1.Session(config=config) as session:
      session.run(tf.compat.v1.global_variables_initializer())
      saver = tf.compat.v1.train.Saver(sharded=True)
      saver.save(session, os.path.join(HERE, prefix), global_step=step, write_meta_graph=False)


def expected(importer, prefix):
  data = importer.t5_importer.apply(importer.load_tf_ckpt(os.path.join(HERE, prefix)))
  data = importer._maybe_correct_relpos_bias(importer._add_missing_param_states(data))
  found = {}
  for name, array in sorted(data.items()):
    if isinstance(array, importer.LazyArray):
      # The variable is the default of the function that reads it.
      found[name] = [list(array.shape), array._get_fn.__defaults__[0]]
    else:
      found[name] = [list(np.shape(array)), 'global_step' if name == 'state/step' else None]
  return found


if __name__ == '__main__':
  spec = importlib.util.spec_from_file_location('importer', sys.argv[1])
  importer = importlib.util.module_from_spec(spec)
  spec.loader.exec_module(importer)
  os.makedirs(HERE, exist_ok=True)
  save('model.ckpt', per_layer=False, norm='layer_norm', slots=True, step=700, dtype=tf.float32)
  save('own_bias.ckpt', per_layer=True, norm='rms_norm', slots=False, step=8, dtype=tf.bfloat16)
  with open(os.path.join(HERE, 'checkpoint'), 'w') as f:
    f.write('model_checkpoint_path: "/moved/from/elsewhere/model.ckpt-700"\n'
            'all_model_checkpoint_paths: "model.ckpt-700"\n')
  for prefix in ['model.ckpt-700', 'own_bias.ckpt-8']:
    lines = [f'{json.dumps(k)}: {json.dumps(v)}' for k, v in expected(importer, prefix).items()]
    with open(os.path.join(HERE, prefix + '.json'), 'w') as f:
      f.write('{' + ',\n'.join(lines) + '}\n')
