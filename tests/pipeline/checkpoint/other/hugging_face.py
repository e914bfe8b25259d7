"""Writes models of transformers and files of torch.save into `hugging_face/` and `torch/`.

Made with transformers 4.57.1, torch 2.11.0, numpy 2.4.6 (python 3.11); its argument is the folder
`transformers/models` of the wheel of transformers 4.40.2, the last kind with converters from T5X:
    pip download --no-deps transformers==4.40.2 && unzip -d old transformers-4.40.2-*.whl
    python tests/pipeline/checkpoint/other/hugging_face.py old/transformers/models [NAME...]
Names of models make these alone.
Element i of the array with T5X's name n is (crc32(n) % 128 + i) % 256, a number that every type holds.
transformers' own converters give the tensors; LongT5's two more arrays are those of its Flax converter.
"""

import importlib.util
import os
import shutil
import sys
import types
import zlib

import numpy as np
import safetensors.torch
import torch
import transformers

HERE = os.path.dirname(os.path.abspath(__file__))
SIZES = dict(vocab_size=12, d_model=8, num_heads=2, d_kv=3, d_ff=5, relative_attention_num_buckets=4,
             decoder_start_token_id=0)


def converter(folder, name):
  flat = types.SimpleNamespace(flatten_dict=lambda tree: {(k,): v for k, v in tree.items()})
  checkpoints = types.SimpleNamespace()
  for module, values in [('flax', dict(traverse_util=flat)), ('t5x', dict(checkpoints=checkpoints))]:
    sys.modules.setdefault(module, types.ModuleType(module)).__dict__.update(values)
  spec = importlib.util.spec_from_file_location(name, os.path.join(folder, name))
  module = importlib.util.module_from_spec(spec)
  spec.loader.exec_module(module)
  return module


def value(name, shape):
  start = zlib.crc32(name.encode()) % 128
  return ((start + np.arange(np.prod(shape))) % 256).astype(np.float32).reshape(shape)


def t5x(config, tied, per_layer):
  """T5X's arrays, one layer beside the other."""
  emb, heads, joined = config.d_model, config.num_heads, config.num_heads * config.d_kv
  gated = config.feed_forward_proj.startswith('gated')
  shapes = {'token_embedder/embedding': (config.vocab_size, emb)}
  if not tied:
    shapes['decoder/logits_dense/kernel'] = (emb, config.vocab_size)
  stacks = [
      ('encoder', config.num_layers, [('pre_attention', 'attention')]),
      ('decoder', config.num_decoder_layers,
       [('pre_self_attention', 'self_attention'), ('pre_cross_attention', 'encoder_decoder_attention')]),
  ]
  for stack, layers, attentions in stacks:
    shapes[f'{stack}/{stack}_norm/scale'] = (emb,)
    if not per_layer:
      shapes[f'{stack}/relpos_bias/rel_embedding'] = (heads, config.relative_attention_num_buckets)
    for i in range(layers):
      layer = f'{stack}/layers_{i}'
      if per_layer:
        shapes[f'{layer}/relpos_bias/rel_embedding'] = (heads, config.relative_attention_num_buckets)
      for norm, attention in attentions:
        shapes[f'{layer}/{norm}_layer_norm/scale'] = (emb,)
        for kernel in ['query', 'key', 'value']:
          shapes[f'{layer}/{attention}/{kernel}/kernel'] = (emb, joined)
        shapes[f'{layer}/{attention}/out/kernel'] = (joined, emb)
      shapes[f'{layer}/pre_mlp_layer_norm/scale'] = (emb,)
      for wi in ['wi_0', 'wi_1'] if gated else ['wi']:
        shapes[f'{layer}/mlp/{wi}/kernel'] = (emb, config.d_ff)
      shapes[f'{layer}/mlp/wo/kernel'] = (config.d_ff, emb)
  return {name: value(name, shape) for name, shape in shapes.items()}


def scanned(params, layers, heads):
  """The same with all layers of a stack in one array, its second axis, as umT5 was trained."""
  new = {k: v for k, v in params.items() if '/layers_' not in k}
  for name in params:
    stack, _, rest = name.partition('/layers_0/')
    if not rest:
      continue
    parts = [params[f'{stack}/layers_{i}/{rest}'] for i in range(layers)]
    if 'attention' in rest and rest.endswith('out/kernel'):
      parts = [p.reshape(heads, -1, p.shape[-1]) for p in parts]
    elif 'attention' in rest and rest.endswith('kernel'):
      parts = [p.reshape(p.shape[0], heads, -1) for p in parts]
    # The converter reads every array at [:, layer].
    new[f'{stack}/{stack}/{rest}'] = np.stack(parts, axis=1)
  return new


def fill(model, params, converters, family):
  config = model.config
  if family == 'umt5':
    tensors = converters['umt5'].convert_t5x_to_pytorch(
        {'target': scanned(params, config.num_layers, config.num_heads)},
        num_layers=config.num_layers, is_encoder_only=False, scalable_attention=True)
  else:
    tensors = converters['t5'].convert_t5x_to_pytorch(
        {'target': params}, num_layers=config.num_layers,
        num_decoder_layers=config.num_decoder_layers, is_encoder_only=False)
  state = converters['t5'].make_state_dict(tensors, is_encoder_only=False)
  if family.startswith('longt5'):
    kind = 'LocalSelfAttention' if family == 'longt5_local' else 'TransientGlobalSelfAttention'
    state = {k.replace('SelfAttention', kind) if k.startswith('encoder') else k: v
             for k, v in state.items()}
  if family == 'longt5':
    for i in range(config.num_layers):
      name = f'encoder/layers_{i}/attention/T5LayerNorm_0/scale'
      state[f'encoder.block.{i}.layer.0.{kind}.global_input_layer_norm.weight'] = torch.tensor(
          value(name, (config.d_model,)))
    name = 'encoder/side_relpos_bias/rel_embedding'
    shape = (config.num_heads, config.relative_attention_num_buckets)
    state[f'encoder.block.0.layer.0.{kind}.global_relative_attention_bias.weight'] = torch.tensor(
        value(name, shape).T.copy())
  model.load_state_dict(state, strict=True)


def fresh(name):
  folder = os.path.join(HERE, name)
  shutil.rmtree(folder, ignore_errors=True)
  os.makedirs(folder)
  return folder


def models(converters, only):
  cases = [
      # name, class, layers, gated, tied, type, arguments of save_pretrained
      ('t5', 'T5', (2, 2), False, True, torch.float32, {}),
      ('t5_1_1', 'T5', (2, 1), True, False, torch.float32, dict(safe_serialization=False)),
      ('mt5', 'MT5', (1, 1), True, False, torch.float32, dict(max_shard_size='2KB')),
      ('umt5', 'UMT5', (2, 2), True, False, torch.bfloat16,
       dict(max_shard_size='3KB', safe_serialization=False)),
      ('longt5', 'LongT5', (2, 1), True, False, torch.float16, {}),
      ('longt5_local', 'LongT5', (2, 1), True, False, torch.float16, {}),
      ('byt5', 'T5', (3, 1), True, False, torch.bfloat16, {}),
  ]
  for name, cls, (encoder, decoder), gated, tied, dtype, how in cases:
    if only and name not in only:
      continue
    extra = {}
    if cls == 'LongT5':
      kind = 'local' if name == 'longt5_local' else 'transient-global'
      extra = dict(encoder_attention_type=kind, local_radius=3, global_block_size=4)
    elif name == 'byt5':
      extra = dict(vocab_size=384, tokenizer_class='ByT5Tokenizer')
    config = getattr(transformers, cls + 'Config')(
        num_layers=encoder, num_decoder_layers=decoder, tie_word_embeddings=tied,
        feed_forward_proj='gated-gelu' if gated else 'relu', **SIZES | extra)
    model = getattr(transformers, cls + 'ForConditionalGeneration')(config)
    fill(model, t5x(config, tied, per_layer=name == 'umt5'), converters, name)
    folder = fresh('hugging_face/' + name)
    model.to(dtype).save_pretrained(folder, **how)
    if name == 'byt5':
      # Few of its 125 sentinels: each takes nine lines.
      transformers.ByT5Tokenizer(extra_ids=3).save_pretrained(folder)


def state_dicts(converters):
  folder = fresh('torch')
  config = transformers.T5Config(**SIZES, num_layers=1, num_decoder_layers=1)
  model = transformers.T5ForConditionalGeneration(config)
  fill(model, t5x(config, tied=True, per_layer=False), converters, 't5')
  state = model.state_dict()
  save = lambda value, name, **how: torch.save(value, os.path.join(folder, name), **how)
  save(state, 'zip.pth')
  save(state, 'legacy.pth', _use_new_zipfile_serialization=False)
  optimizer = torch.optim.Adafactor(model.parameters())
  model(input_ids=torch.tensor([[2, 1]]), labels=torch.tensor([[3, 1]])).loss.backward()
  wrapped = {'module.' + k: v.to(torch.bfloat16) for k, v in state.items()}
  save({'model_state_dict': wrapped, 'optimizer_state_dict': optimizer.state_dict(),
        'iteration': 7, 'best': 0.5, 'none': None, 'shapes': [torch.Size([2])]}, 'training.pth')
  whole = torch.arange(60.0).reshape(3, 4, 5)
  odd = {
      'whole': whole, 'turned': whole.permute(2, 0, 1), 'stepped': whole[1:, ::2, 3],
      'scalar': whole[2, 1, 3], 'empty': torch.zeros(0, 4), 'double': whole[0].double(),
      'half': whole[0].half(), 'long': torch.arange(4), 'int': torch.arange(4, dtype=torch.int32),
      'bool': torch.tensor([True, False]),
      'parameter': torch.nn.Parameter(whole[0, 0]),
  }
  save(odd, 'odd.pt')
  save(odd, 'odd_legacy.pt', _use_new_zipfile_serialization=False)
  save(odd, 'odd_5.pt', pickle_protocol=5)
  save(torch.nn.Linear(2, 2), 'module.pt')
  eight_bits = {'x': torch.arange(6.0).reshape(2, 3).to(torch.float8_e4m3fn)}
  save(eight_bits, 'float8.pt')
  safetensors.torch.save_file(eight_bits, os.path.join(HERE, 'hugging_face/float8.safetensors'))


if __name__ == '__main__':
  source = sys.argv[1]
  found = {
      't5': converter(os.path.join(source, 't5'), 'convert_t5x_checkpoint_to_pytorch.py'),
      'umt5': converter(os.path.join(source, 'umt5'), 'convert_umt5_checkpoint_to_pytorch.py'),
  }
  only = sys.argv[2:]
  models(found, only)
  if not only:
    state_dicts(found)
