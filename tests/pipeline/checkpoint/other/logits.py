"""Checks that what `gimlet checkpoint convert` writes for transformers yields the logits of the model it was made from.

For every family: a tiny model of random float32 values, saved by transformers, is converted to T5X's format
and from there to `hugging_face`, `torch` and, where the installed transformers reads it, `flax`; transformers loads
each, and all get the same rows, one of them padded. Prints the largest |difference| / largest |logit|; exits 1 if one
is above 1e-5, if a tensor was missing or left over, or if ByT5's tokenizer yields other ids.

Usage: python logits.py --gimlet=BINARY [--dir=FOLDER]
(`cargo build --no-default-features` makes BINARY; torch and transformers of version 4 or 5 are needed, and flax for
`flax`, which version 5 has no more.)

Everything made stays in FOLDER, and what lies there already is taken as it is: two runs with the same FOLDER and
different versions of transformers compare these. Then umT5 differs, and must: version 5 divides what goes into its
logits by the root of `d_model`, version 4 does so only where the head is the embedding.

With transformers 5.23.0 and 4.57.1 (torch 2.11.0) every figure is 0, but Flax's (0.12.0): 8.8e-07 to 1.7e-06.
"""

import argparse
import importlib.util
import pathlib
import subprocess
import sys
import tempfile

import numpy
import torch
import transformers

LIMIT = 1e-5
VERSION = int(transformers.__version__.split('.')[0])
SIZES = dict(vocab_size=97, d_model=24, num_heads=3, d_kv=6, d_ff=20, num_layers=2, num_decoder_layers=3,
             relative_attention_num_buckets=8, decoder_start_token_id=0)
WINDOW = dict(local_radius=5, global_block_size=4)
LONG = ['--model_type=longt5', '--local_radius=5', '--global_block_size=4']
TEXT = 'Ein Maß für <extra_id_0> und 一.'
CASES = [
    # name, class, head, configuration, options of the last conversion
    ('t5', 'T5', 'embedding', dict(feed_forward_proj='relu'), []),
    ('t5_1_1', 'T5', 'own', dict(), []),
    ('t5_1_1_tied_unscaled', 'T5', 'unscaled embedding', dict(), []),
    ('mt5', 'MT5', 'own', dict(), ['--model_type=mt5']),
    ('umt5', 'UMT5', 'own', dict(), []),
    ('byt5', 'T5', 'own', dict(vocab_size=384), []),
    ('longt5_local', 'LongT5', 'own', dict(encoder_attention_type='local', **WINDOW), LONG),
    # Without the family, which its global attention tells.
    ('longt5_transient_global', 'LongT5', 'own', dict(encoder_attention_type='transient-global', **WINDOW), LONG[1:]),
]


def randomize(model, has_own_head):
  """Replaces every value, so that each has a say in the logits."""
  if has_own_head:
    # Version 5 has tied it, whatever the configuration says.
    model.lm_head.weight = torch.nn.Parameter(torch.empty_like(model.lm_head.weight))
  for name, tensor in model.named_parameters():
    with torch.no_grad():
      if 'norm' in name:
        tensor.uniform_(0.5, 1.5)
      elif 'bias' in name or 'shared' in name:
        tensor.normal_()
      else:
        tensor.normal_(std=tensor.shape[-1] ** -0.5)


def rows(vocab_size):
  """Longer than LongT5's window and than several of its blocks."""
  random = torch.Generator().manual_seed(1)
  inputs = torch.randint(2, vocab_size, (2, 37), generator=random)
  mask = torch.ones_like(inputs)
  inputs[1, 29:] = mask[1, 29:] = 0
  targets = torch.randint(2, vocab_size, (2, 11), generator=random)
  targets[:, 0] = 0
  return dict(input_ids=inputs, attention_mask=mask, decoder_input_ids=targets)


def logits(model):
  with torch.no_grad():
    return model.eval()(**rows(model.config.vocab_size)).logits


def make(folder, name, cls, head, settings):
  torch.manual_seed(0)
  settings = dict(SIZES, feed_forward_proj='gated-gelu', tie_word_embeddings=head == 'embedding') | settings
  config = getattr(transformers, cls + 'Config')(**settings)
  model = getattr(transformers, cls + 'ForConditionalGeneration')(config)
  randomize(model, head == 'own')
  model.save_pretrained(folder / 'made')
  torch.save(logits(model), folder / 'logits.pt')


def convert(gimlet, source, target, *options):
  if not target.exists():
    command = [gimlet, 'checkpoint', 'convert', str(source), str(target), *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout


def targets(cls):
  """Formats that the installed transformers loads, with its class for each."""
  name = f'{cls}ForConditionalGeneration'
  yield 'hugging_face', getattr(transformers, name)
  yield 'torch', getattr(transformers, name)
  # It has no umT5 in Flax.
  if VERSION < 5 and importlib.util.find_spec('flax') and hasattr(transformers, 'Flax' + name):
    yield 'flax', getattr(transformers, 'Flax' + name)


def loaded(cls, folder):
  """The logits, and what is wrong with the tensors."""
  if cls.__name__.startswith('Flax'):
    # What it misses it makes up, which the logits show.
    model = cls.from_pretrained(folder)
    arrays = {name: array.numpy() for name, array in rows(model.config.vocab_size).items()}
    return torch.tensor(numpy.asarray(model(**arrays).logits)), []
  model, info = cls.from_pretrained(folder, output_loading_info=True)
  # A tied head is in no file, and is no loss.
  missing = [name for name in info['missing_keys'] if name != 'lm_head.weight' and 'embed_tokens' not in name]
  wrong = [f'{name}: {info[name]}' for name in ['unexpected_keys', 'mismatched_keys'] if info[name]]
  return logits(model), wrong + ([f'missing: {missing}'] if missing else [])


def tokenizer_faults(folder):
  """What is wrong with the tokenizer beside a ByT5."""
  tokenizers = [transformers.ByT5Tokenizer(), transformers.AutoTokenizer.from_pretrained(folder)]
  kinds, ids = zip(*[(type(tokenizer).__name__, tokenizer(TEXT).input_ids) for tokenizer in tokenizers])
  return [] if kinds[0] == kinds[1] and ids[0] == ids[1] else [f'tokenizers {kinds}: {ids}']


def check(folder, gimlet):
  """Prints a line for every family and format, and yields whether all is well."""
  all_is_well = True
  for name, cls, head, settings, options in CASES:
    case = folder / name
    if not (case / 'logits.pt').exists():
      if head == 'unscaled embedding' and VERSION < 5:
        print(f'{name:24}: transformers {transformers.__version__} has no such model')
        continue
      case.mkdir(parents=True, exist_ok=True)
      make(case, name, cls, head, settings)
    convert(gimlet, case / 'made', case / 't5x' / 'checkpoint_0', '--to=t5x')
    for format, loader in targets(cls):
      convert(gimlet, case / 't5x' / 'checkpoint_0', case / format, f'--to={format}', *options)
      found, wrong = loaded(loader, case / format)
      expected = torch.load(case / 'logits.pt')
      difference = ((found - expected).abs().max() / expected.abs().max()).item()
      wrong += tokenizer_faults(case / format) if name == 'byt5' else []
      # Not a number is no small difference.
      is_well = difference <= LIMIT and not wrong
      all_is_well &= is_well
      print(f'{name:24} {format:12}: {difference:.1e}', '' if is_well else f'FAILED {wrong}')
  return all_is_well


def main():
  parser = argparse.ArgumentParser()
  parser.add_argument('--gimlet', required=True)
  parser.add_argument('--dir')
  args = parser.parse_args()
  transformers.logging.set_verbosity_error()
  transformers.logging.disable_progress_bar()
  with tempfile.TemporaryDirectory() as scratch:
    return 0 if check(pathlib.Path(args.dir or scratch), args.gimlet) else 1


if __name__ == '__main__':
  sys.exit(main())
