"""Files of the Trainer of t5-experiments: makes those in `trainer/`, and loads those that Gimlet writes.

Made with transformers 5.24.0, torch 2.15.0, numpy 2.4.6 (python 3.11):
    python tests/pipeline/checkpoint/other/trainer.py make
    python tests/pipeline/checkpoint/other/trainer.py check model_N.pth...
The first saves a T5 with its optimizer and schedule as `Trainer.save` of t5-experiments does, and as its Trainer with
Accelerate does. Element i of a tensor n is (crc32(n) % 128 + i) % 256; of the optimizer's, n begins with the slot and a space.
The second loads files as `Trainer.load` does, the model with strict=True, and makes an update.
"""

import os
import sys
import zlib

import numpy as np
import torch
import transformers
from transformers.optimization import Adafactor

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'trainer')
STEP = 7


def value(name, tensor):
  start = zlib.crc32(name.encode()) % 128
  numbers = (start + torch.arange(tensor.numel())) % 256
  return numbers.to(tensor.dtype).reshape(tensor.shape)


def t5(**changes):
  config = dict(vocab_size=12, d_model=8, num_heads=2, d_kv=3, d_ff=5, num_layers=1, num_decoder_layers=1,
                relative_attention_num_buckets=4, feed_forward_proj='relu', tie_word_embeddings=True,
                decoder_start_token_id=0, dropout_rate=0.0)
  return transformers.T5ForConditionalGeneration(transformers.T5Config(**{**config, **changes}))


def optimizer_of(model, group):
  if 'scale_parameter' in group:
    keys = ['lr', 'eps', 'clip_threshold', 'decay_rate', 'beta1', 'weight_decay', 'scale_parameter', 'relative_step',
            'warmup_init']
    return Adafactor(model.parameters(), **{key: group[key] for key in keys})
  return torch.optim.AdamW(model.parameters(), lr=1e-3)


def update(model, optimizer):
  ids = torch.tensor([[3, 4, 5, 1]])
  loss = model(input_ids=ids, labels=ids).loss
  loss.backward()
  optimizer.step()
  optimizer.zero_grad()
  return loss.item()


def trained(make_optimizer):
  torch.manual_seed(0)
  model = t5()
  optimizer = make_optimizer(model.parameters())
  scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, step / 5))
  update(model, optimizer)
  scheduler.step()
  with torch.no_grad():
    for name, parameter in model.named_parameters():
      parameter.copy_(value(name, parameter))
      state = optimizer.state[parameter]
      for slot, tensor in state.items():
        if slot == 'step':
          state[slot] = torch.tensor(float(STEP)) if torch.is_tensor(tensor) else STEP
        elif torch.is_tensor(tensor) and tensor.dim():
          tensor.copy_(value(f'{slot} {name}', tensor))
  return model, optimizer, scheduler


def make():
  os.makedirs(os.path.join(HERE, 'model_6', 'accelerate_state'), exist_ok=True)
  metrics = {'train': {'loss': np.float64(6.5)}, 'valid': {'loss': np.mean([np.float32(6.25)])}}
  counters = dict(iteration=STEP - 1, epoch=0, metrics=metrics)
  optimizers = dict(
      adafactor=lambda parameters: Adafactor(parameters, lr=1e-2, scale_parameter=True, relative_step=False),
      adamw=lambda parameters: torch.optim.AdamW(parameters, lr=5e-5, weight_decay=1e-5),
  )
  for name, make_optimizer in optimizers.items():
    model, optimizer, scheduler = trained(make_optimizer)
    torch.save(dict(model_state_dict=model.state_dict(), optimizer_state_dict=optimizer.state_dict(), **counters,
                    lr_scheduler_state_dict=scheduler.state_dict()), os.path.join(HERE, f'{name}.pth'))
  folder = os.path.join(HERE, 'model_6')
  torch.save(model.state_dict(), os.path.join(folder, 'pytorch_model.bin'))
  torch.save(optimizer.state_dict(), os.path.join(folder, 'accelerate_state', 'optimizer.bin'))
  scaler = torch.amp.GradScaler('cpu', init_scale=512.0)
  scaler.load_state_dict({**scaler.state_dict(), '_growth_tracker': 3})
  torch.save(scaler.state_dict(), os.path.join(folder, 'accelerate_state', 'scaler.pt'))
  torch.save(counters, os.path.join(folder, 'trainer.pckl'))


def check(path):
  checkpoint = torch.load(path, map_location='cpu', weights_only=True)
  torch.load(path, map_location='cpu', weights_only=False)
  tensors = checkpoint['model_state_dict']
  layers = lambda stack: 1 + max(int(n.split('.')[2]) for n in tensors if n.startswith(f'{stack}.block.'))
  bias = tensors['encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight']
  feed_forward = 'encoder.block.0.layer.1.DenseReluDense.'
  gated = feed_forward + 'wi_0.weight' in tensors
  model = t5(vocab_size=tensors['shared.weight'].shape[0], d_model=tensors['shared.weight'].shape[1],
             num_heads=bias.shape[1], relative_attention_num_buckets=bias.shape[0],
             d_kv=tensors['encoder.block.0.layer.0.SelfAttention.q.weight'].shape[0] // bias.shape[1],
             d_ff=tensors[feed_forward + 'wo.weight'].shape[1], num_layers=layers('encoder'),
             num_decoder_layers=layers('decoder'), feed_forward_proj='gated-gelu' if gated else 'relu',
             tie_word_embeddings=torch.equal(tensors['shared.weight'], tensors['lm_head.weight']))
  print(path, 'model:', model.load_state_dict(tensors, strict=True))
  shared = {t.data_ptr() for t in tensors.values()}
  own = checkpoint['gimlet']['arrays']
  views = [t.data_ptr() for n, t in own.items() if n.startswith('target/')]
  print('  parameters of Gimlet that are views of the model:', sum(p in shared for p in views), 'of', len(views))
  print('  scale of the loss:', checkpoint.get('torch_amp'), checkpoint.get('amp'))
  print('  iteration:', checkpoint['iteration'], 'epoch:', checkpoint['epoch'], 'metrics:', checkpoint['metrics'])
  if 'optimizer_state_dict' not in checkpoint:
    print('  no optimizer')
    return
  states = checkpoint['optimizer_state_dict']
  optimizer = optimizer_of(model, states['param_groups'][0])
  optimizer.load_state_dict(states)
  for name, parameter in model.named_parameters():
    state = optimizer.state[parameter]
    if 'exp_avg_sq_row' in state:
      assert (*state['exp_avg_sq_row'].shape, *state['exp_avg_sq_col'].shape) == tuple(parameter.shape), name
    else:
      assert state['exp_avg_sq'].shape == parameter.shape, name
  group = {k: v for k, v in states['param_groups'][0].items() if k != 'params'}
  print(f'  {type(optimizer).__name__}:', len(optimizer.state), 'states,', group)
  if 'lr_scheduler_state_dict' in checkpoint:
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
    scheduler.load_state_dict(checkpoint['lr_scheduler_state_dict'])
    print('  scheduler:', scheduler.last_epoch, scheduler.base_lrs, scheduler.get_last_lr())
  print('  loss before the next update:', update(model, optimizer))


if __name__ == '__main__':
  if sys.argv[1] == 'make':
    make()
  else:
    for path in sys.argv[2:]:
      check(path)
