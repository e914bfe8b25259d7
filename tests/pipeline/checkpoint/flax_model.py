"""Writes `flax/flax_model.msgpack`: the parameters that `tool.rs` converts, as transformers' Flax T5 saves them.

Made with flax 0.12.8, numpy 2.4.6 (python 3.11):
    python tests/pipeline/checkpoint/flax_model.py
Array number n of a list sorted by T5X's names holds n, n + 1/4, n + 2/4, ... in T5X's order of elements.
"""

import os

from flax import serialization
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
VOCAB, EMB, JOINED, MLP, HEADS, BUCKETS = 6, 4, 4, 8, 2, 32


def attention(t5x, flax):
  names = {'query': 'q', 'key': 'k', 'value': 'v', 'out': 'o'}
  return {f'{t5x}/{a}/kernel': (f'{flax}/{b}/kernel', (EMB, JOINED)) for a, b in names.items()}


def block(stack, mlp_layer, norms):
  t5x, flax = f'{stack}/layers_0', f'{stack}/block/0/layer'
  entries = {f'{t5x}/{n}/scale': (f'{flax}/{i}/layer_norm/weight', (EMB,)) for i, n in enumerate(norms)}
  for wi in ('wi_0', 'wi_1'):
    entries[f'{t5x}/mlp/{wi}/kernel'] = (f'{flax}/{mlp_layer}/DenseReluDense/{wi}/kernel', (EMB, MLP))
  entries[f'{t5x}/mlp/wo/kernel'] = (f'{flax}/{mlp_layer}/DenseReluDense/wo/kernel', (MLP, EMB))
  bias = f'{flax}/0/SelfAttention/relative_attention_bias/embedding'
  entries[f'{stack}/relpos_bias/rel_embedding'] = (bias, (HEADS, BUCKETS))
  entries[f'{stack}/{stack}_norm/scale'] = (f'{stack}/final_layer_norm/weight', (EMB,))
  return entries


def parameters():
  """T5X's name -> Flax's path, T5X's shape."""
  encoder, decoder = 'encoder/layers_0', 'decoder/layers_0'
  norms = ['pre_self_attention_layer_norm', 'pre_cross_attention_layer_norm', 'pre_mlp_layer_norm']
  return {
      'token_embedder/embedding': ('shared/embedding', (VOCAB, EMB)),
      'decoder/logits_dense/kernel': ('lm_head/kernel', (EMB, VOCAB)),
      **block('encoder', 1, ['pre_attention_layer_norm', 'pre_mlp_layer_norm']),
      **block('decoder', 2, norms),
      **attention(f'{encoder}/attention', 'encoder/block/0/layer/0/SelfAttention'),
      **attention(f'{decoder}/self_attention', 'decoder/block/0/layer/0/SelfAttention'),
      **attention(f'{decoder}/encoder_decoder_attention', 'decoder/block/0/layer/1/EncDecAttention'),
  }


def main():
  tree = {}
  entries = {flax: (n, t5x, shape) for n, (t5x, (flax, shape)) in enumerate(sorted(parameters().items()))}
  for path in sorted(entries, key=lambda path: path.split('/')):
    number, t5x, shape = entries[path]
    values = (number + np.arange(np.prod(shape)) / 4).astype(np.float32).reshape(shape)
    if t5x.endswith('rel_embedding'):
      values = values.T  # [buckets, heads]
    *folders, last = path.split('/')
    node = tree
    for key in folders:
      node = node.setdefault(key, {})
    node[last] = np.ascontiguousarray(values)
  folder = os.path.join(HERE, 'flax')
  os.makedirs(folder, exist_ok=True)
  with open(os.path.join(folder, 'flax_model.msgpack'), 'wb') as f:
    f.write(serialization.to_bytes(tree))


if __name__ == '__main__':
  main()
