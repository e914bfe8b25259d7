"""Trains tiny models with real Mesh TensorFlow and writes down what it did, for tests/e2e/mesh_tf/mod.rs.

    python make_runs.py [RUN ...]
    python make_runs.py --continue_from=FOLDER RUN

Made with mesh-tensorflow 0.1.21, tensorflow-cpu 2.21.0 and gin-config 0.5.0 (python 3.11) on CPU in float32, without
dropout. mesh_tensorflow imports names that TensorFlow does not have any more, and packages that nothing here uses:
stand-ins are below.

Each run is a folder beside this file:
- examples.jsonl: token ids ending in EOS, random, in the order they are trained on; some are longer than their length;
- checkpoints.tar.gz: `model.ckpt-0` and `model.ckpt-6` with all slots, before and after six steps; of `unpacked` also
  `model.ckpt-3`;
- log.json: the loss and the learning rate of every step; of `lm` also what `model.ckpt-6` writes after the first inputs.

The second form trains RUN from FOLDER/model.ckpt-N, which Gimlet has written, to step 6, and prints the losses.
"""

import argparse
import json
import pathlib
import sys
import tarfile
import tempfile
import types

import numpy as np
import tensorflow
import tensorflow.compat.v1 as tf


# Modules that mesh_tensorflow imports, and that TensorFlow or this environment lacks.
MISSING = [
    'mesh_tensorflow.tpu_variables', 'tensorflow_datasets', 'tensorflow.python.tpu.tpu_config',
    'tensorflow.python.tpu.tpu_estimator']


class StandIn(types.ModuleType):
  """A module whose names are all empty classes."""

  def __getattr__(self, name):
    return type(name, (), {})


tf.estimator = tensorflow.estimator = types.SimpleNamespace(
    SessionRunHook=object, CheckpointSaverListener=object, CheckpointSaverHook=object,
    ModeKeys=types.SimpleNamespace(TRAIN='train', EVAL='eval', PREDICT='infer'))
for missing in MISSING:
  sys.modules[missing] = StandIn(missing)
import gin
import mesh_tensorflow as mtf
from mesh_tensorflow import optimize
from mesh_tensorflow.transformer import dataset as mesh_dataset
from mesh_tensorflow.transformer import learning_rate_schedules as schedules
from mesh_tensorflow.transformer import transformer
from mesh_tensorflow.transformer import utils

HERE = pathlib.Path(__file__).parent
VOCAB_SIZE, EOS_ID = 64, 1
LENGTHS = {'inputs': 20, 'targets': 12}
BATCH_SIZE, STEPS = 4, 6
TOTAL_STEPS = 10

# The bindings of the T5 paper's configurations, with small dimensions.
SHARED = '''

SelfAttention.num_heads = 2
SelfAttention.key_value_size = 8
SelfAttention.dropout_rate = 0.0
SelfAttention.relative_attention_type = 'bias_shared'
SelfAttention.relative_attention_num_buckets = 32
EncDecAttention.relative_attention_type = None
DenseReluDense.hidden_size = 32
DenseReluDense.dropout_rate = 0.0
task_adapter/DenseReluDense.hidden_size = 24
make_layer_stack.num_layers = 2
Unitransformer.d_model = 16
Unitransformer.max_length = 512
Unitransformer.positional_embedding = False
Unitransformer.shared_embedding_and_softmax_weights = True
Unitransformer.vocab_divisor = 64
Unitransformer.z_loss = 0.0001
AdafactorOptimizer.min_dim_size_to_factor = 16
'''
LEGACY_NORMS = 'LayerStack.dropout_rate = 0.0\nLayerStack.norm_epsilon = 1e-06\n'
NORMS = '''
LayerStack.dropout_rate = None
LayerStack.norm_epsilon = None
LayerStack.sublayers_initial = [@sublayer_dropout]
LayerStack.sublayers_per_layer = [@sublayer_rms_norm, @sublayer_call_layer, @sublayer_dropout, @sublayer_residual]
LayerStack.sublayers_final = [@sublayer_rms_norm, @sublayer_dropout]
'''
STACKS = '''
encoder/make_layer_stack.layers = [@SelfAttention, @DenseReluDense]
decoder/make_layer_stack.layers = [@SelfAttention, @EncDecAttention, @DenseReluDense]
'''
WITH_ADAPTERS = '''
encoder/make_layer_stack.layers = [@SelfAttention, @DenseReluDense, ('task_adapter', @task_adapter/DenseReluDense)]
decoder/make_layer_stack.layers = [
    @SelfAttention, @EncDecAttention, @DenseReluDense, ('task_adapter', @task_adapter/DenseReluDense)]
'''
TIED = '''
encoder/make_layer_stack.layers = [('self_attention', @SelfAttention), ('dense_relu_dense', @DenseReluDense)]
decoder/make_layer_stack.layers = [
    ('self_attention', @SelfAttention), ('enc_dec_attention', @EncDecAttention), ('dense_relu_dense', @DenseReluDense)]
make_bitransformer.encoder_name = 'decoder'
make_bitransformer.decoder_name = 'decoder'
'''
LANGUAGE_MODEL = '''
make_layer_stack.layers = [@SelfAttention, @DenseReluDense]
Unitransformer.input_full_attention = True
Unitransformer.shared_embedding_and_softmax_weights = False
'''


def noam(step, total):
  return schedules.learning_rate_schedule_noam(step, total, warmup_steps=3, linear_decay_fraction=0.6, multiplier=0.04)


def constant(step, total):
  return schedules.constant_learning_rate(step, total, learning_rate=0.01)


def product(step, total):
  warmup = lambda step, total: schedules.linear_warmup(step, total, steps_or_fraction=0.4)
  return schedules.product_learning_rate(step, total, factors=[0.05, warmup, schedules.linear_decay], offset=-2)


RUNS = {
    'unpacked': dict(seed=1, packed=False, gin=STACKS + LEGACY_NORMS, schedule=constant),
    'packed': dict(
        seed=2, packed=True, schedule=noam,
        gin=STACKS + LEGACY_NORMS + 'decoder/Unitransformer.loss_denominator = 40\nAdafactorOptimizer.decay_rate = 0.9\n'),
    'adapters': dict(seed=3, packed=False, gin=WITH_ADAPTERS + LEGACY_NORMS, schedule=constant, filter='task_adapter'),
    'tied': dict(seed=4, packed=True, gin=TIED + LEGACY_NORMS, schedule=product),
    'lm': dict(seed=5, packed=True, gin=LANGUAGE_MODEL + NORMS, schedule=constant, joined=True),
}


def make_examples(run):
  random = np.random.default_rng(run['seed'])

  def feature(length):
    return [*map(int, random.integers(2, VOCAB_SIZE, random.integers(1, length + 4))), EOS_ID]

  count = 90 if run['packed'] else STEPS * BATCH_SIZE
  return [{name: feature(length) for name, length in LENGTHS.items()} for _ in range(count)]


def make_batches(examples, packed):
  """The rows that t5's `mesh_train_dataset_fn` makes of them."""
  with tf.Graph().as_default(), tf.Session() as session:
    signature = {name: tf.int32 for name in LENGTHS}
    dataset = tf.data.Dataset.from_generator(
        lambda: iter(examples), signature, {name: tf.TensorShape([None]) for name in LENGTHS})
    dataset = mesh_dataset.pack_or_pad(
        dataset, LENGTHS, pack=packed, feature_keys=tuple(LENGTHS), ensure_eos=set(LENGTHS))
    batch = tf.data.make_one_shot_iterator(dataset.batch(BATCH_SIZE, drop_remainder=True)).get_next()
    return [session.run(batch) for _ in range(STEPS)]


class Training:
  """The graph of a training step."""

  def __init__(self, run):
    gin.clear_config()
    gin.parse_config(SHARED + run['gin'])
    self.step = tf.train.get_or_create_global_step()
    graph, self.inputs = mtf.Graph(), {}
    mesh = mtf.Mesh(graph, 'mesh')
    ends = ['', '_segmentation', '_position'] if run['packed'] else ['']

    def feature(name, length):
      shape = mtf.Shape([mtf.Dimension('batch', BATCH_SIZE), mtf.Dimension('length', length)])
      self.inputs[name] = tf.placeholder(tf.int32, [BATCH_SIZE, length])
      return mtf.import_fully_replicated(mesh, self.inputs[name], shape)

    features = {name + end: feature(name + end, length) for name, length in LENGTHS.items() for end in ends}
    common = dict(compute_loss=True, mode='train', variable_dtype=mtf.VariableDType(tf.float32, tf.float32, tf.float32))
    sizes = dict(input_vocab_size=VOCAB_SIZE, output_vocab_size=VOCAB_SIZE)
    if run.get('joined'):
      features = utils._dynamic_text2self(features)
      targets, ids = features['targets'], features['targets_segmentation']
      model = transformer.Unitransformer(autoregressive=True, layer_stack=transformer.make_layer_stack(), **sizes)
      inputs = transformer.autoregressive_inputs(targets, sequence_id=ids)
      _, loss = model.call_simple(inputs, targets, sequence_id=ids, **common)
      self.greedy = model.sample_autoregressive(
          feature('prompts', sum(LENGTHS.values())), temperature=0.0, variable_dtype=common['variable_dtype'],
          remove_partial_sequences=True)
    else:
      model = transformer.make_bitransformer(**sizes)
      _, loss = model.call_simple(
          features['inputs'], features['targets'], encoder_sequence_id=features.get('inputs_segmentation'),
          decoder_sequence_id=features.get('targets_segmentation'), **common)
    self.rate = tf.cast(run['schedule'](self.step, TOTAL_STEPS), tf.float32)
    trained = [v for v in graph.trainable_variables if run.get('filter', '') in v.name]
    gradients = mtf.gradients([loss], [v.outputs[0] for v in trained])
    rate = mtf.import_tf_tensor(mesh, self.rate, mtf.Shape([]))
    updates = optimize.AdafactorOptimizer(learning_rate=rate).apply_grads(gradients, trained)
    lowering = mtf.Lowering(graph, {mesh: mtf.placement_mesh_impl.PlacementMeshImpl([], [], [''])})
    self.loss = lowering.export_to_tf_tensor(loss)
    if run.get('joined'):
      self.greedy = lowering.export_to_tf_tensor(self.greedy)
    with tf.control_dependencies([lowering.lowered_operation(update) for update in updates]):
      self.update = tf.assign_add(self.step, 1)
    self.to_slices, self.to_masters = lowering.copy_masters_to_slices(), lowering.copy_slices_to_masters()
    masters = {variable.name: variable.get_master() for variable in graph.all_variables}
    self.saver = tf.train.Saver({**masters, 'global_step': self.step}, max_to_keep=None)
    self.norms = {name: master for name, master in masters.items() if name.endswith('norm/scale')}

  def run(self, session, batches):
    losses, rates = [], []
    for batch in batches:
      given = {self.inputs[name]: batch[name] for name in self.inputs if name in batch}
      # The loss and the learning rate before the update.
      with_loss = session.run([self.loss, self.rate, self.update], given)
      losses.append(float(with_loss[0]))
      rates.append(float(with_loss[1]))
    session.run(self.to_masters)
    return losses, rates


def make(name):
  run, folder = RUNS[name], HERE / name
  folder.mkdir(exist_ok=True)
  examples = make_examples(run)
  (folder / 'examples.jsonl').write_text(''.join(json.dumps(example) + '\n' for example in examples))
  batches = make_batches(examples, run['packed'])
  with tempfile.TemporaryDirectory() as scratch, tf.Graph().as_default():
    tf.set_random_seed(run['seed'])
    training = Training(run)
    with tf.Session() as session:
      session.run(tf.global_variables_initializer())
      random = np.random.default_rng(run['seed'])
      for master in training.norms.values():  # norms of ones would hide which is which
        session.run(tf.assign(master, 1 + 0.2 * random.standard_normal(master.shape).astype(np.float32)))
      session.run(training.to_slices)
      save = lambda step: training.saver.save(
          session, f'{scratch}/model.ckpt', global_step=step, latest_filename='unused', write_meta_graph=False)
      save(0)
      losses, rates = training.run(session, batches[:3])
      if name == 'unpacked':
        save(3)
      for all_of_them, more in zip((losses, rates), training.run(session, batches[3:])):
        all_of_them += more
      save(STEPS)
      log = {'loss': losses, 'learning_rate': rates}
      if run.get('joined'):
        prompts = np.zeros([BATCH_SIZE, sum(LENGTHS.values())], np.int32)
        for row, example in zip(prompts, examples):
          inputs = example['inputs'][:LENGTHS['inputs'] - 1]
          row[:len(inputs)] = inputs
        log['greedy'] = session.run(training.greedy, {training.inputs['prompts']: prompts}).tolist()
    with tarfile.open(folder / 'checkpoints.tar.gz', 'w:gz') as archive:
      for file in sorted(pathlib.Path(scratch).glob('model.ckpt-*')):
        archive.add(file, arcname=file.name)
  (folder / 'log.json').write_text(json.dumps(log) + '\n')
  print(name, losses)


def continue_from(name, folder):
  prefix = next(pathlib.Path(folder).glob('model.ckpt-*.index')).with_suffix('')
  run = RUNS[name]
  examples = [json.loads(line) for line in (HERE / name / 'examples.jsonl').read_text().splitlines()]
  with tf.Graph().as_default():
    training = Training(run)
    with tf.Session() as session:
      session.run(tf.global_variables_initializer())
      training.saver.restore(session, str(prefix))
      session.run(training.to_slices)
      first = int(session.run(training.step))
      batches = make_batches(examples, run['packed'])[first:]
      print(f'from step {first}:', training.run(session, batches)[0])


if __name__ == '__main__':
  parser = argparse.ArgumentParser()
  parser.add_argument('--continue_from')
  parser.add_argument('runs', nargs='*', default=list(RUNS))
  args = parser.parse_args()
  for name in args.runs:
    continue_from(name, args.continue_from) if args.continue_from else make(name)
