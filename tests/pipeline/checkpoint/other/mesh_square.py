"""Runs two steps of Mesh TensorFlow's Adafactor on a square matrix, and of T5X's with the same gradients.

Writes Mesh TensorFlow's checkpoint, `mesh/square.ckpt-2`, and T5X's parameter and state, `mesh/square.json`.
Made with tensorflow 2.21.0, mesh-tensorflow 0.1.21, jax 0.10.2 and flax 0.12.8 (python 3.11); its argument is a copy of T5X's
`t5x/adafactor.py`, whose imports from T5X are replaced by stand-ins below.
    python tests/pipeline/checkpoint/other/mesh_square.py adafactor.py
"""

import importlib.util
import json
import os
import sys
import types

import flax
import jax.numpy as jnp
import numpy as np
import tensorflow.compat.v1 as tf

# mesh_tensorflow imports names that TensorFlow does not have any more, and that nothing here uses.
tf.estimator = types.SimpleNamespace(SessionRunHook=object, CheckpointSaverListener=object)
sys.modules['mesh_tensorflow.tpu_variables'] = types.ModuleType('tpu_variables')
import mesh_tensorflow as mtf
from mesh_tensorflow.optimize import AdafactorOptimizer

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'mesh')
VARIABLE, PARAM = 'encoder/block_000/layer_000/SelfAttention/q', 'encoder/layers_0/attention/query/kernel'
SIZE, STEPS, RATE = 4, 2, 0.01
START = np.arange(SIZE * SIZE, dtype=np.float32).reshape(SIZE, SIZE) / 16 - 0.4
GRADIENTS = [np.float32((START + 0.1 * step) ** 3) for step in range(1, STEPS + 1)]


def with_mesh_tensorflow():
  with tf.Graph().as_default():
    step = tf.train.get_or_create_global_step()
    graph = mtf.Graph()
    mesh = mtf.Mesh(graph, 'mesh')
    shape = mtf.Shape([mtf.Dimension('d_model', SIZE), mtf.Dimension('heads', SIZE)])
    variable = mtf.get_variable(mesh, VARIABLE, shape, initializer=tf.constant_initializer(START))
    gradient = tf.placeholder(tf.float32, [SIZE, SIZE])
    optimizer = AdafactorOptimizer(learning_rate=RATE, min_dim_size_to_factor=SIZE)
    updates = optimizer.apply_grad(mtf.import_tf_tensor(mesh, gradient, shape), variable.operation)
    lowering = mtf.Lowering(graph, {mesh: mtf.placement_mesh_impl.PlacementMeshImpl([], [], [''])})
    with tf.control_dependencies([lowering.lowered_operation(update) for update in updates]):
      update = tf.assign_add(step, 1)
    with tf.Session() as session:
      session.run(tf.global_variables_initializer())
      session.run(lowering.copy_masters_to_slices())
      for values in GRADIENTS:
        session.run(update, {gradient: values})
      session.run(lowering.copy_slices_to_masters())
      masters = {name.op.name: name for name in tf.global_variables() if '/' not in name.op.name.replace(VARIABLE, '')}
      tf.train.Saver(masters).save(
          session, os.path.join(HERE, 'square.ckpt'), global_step=STEPS, latest_filename='unused', write_meta_graph=False)
      os.remove(os.path.join(HERE, 'unused'))


def with_t5x(path):
  class OptimizerDef:

    def __init__(self, hyper_params):
      self.hyper_params = hyper_params

  @flax.struct.dataclass
  class OptimizerState:
    step: object
    param_states: object

  def flat(tree):
    return flax.traverse_util.flatten_dict(tree, sep='/')

  def tree(values):
    return flax.traverse_util.unflatten_dict({PARAM: jnp.asarray(values)}, sep='/')

  utils = types.SimpleNamespace(flatten_dict_string_keys=flat)
  sys.modules['t5x'] = types.SimpleNamespace(utils=utils)
  sys.modules['t5x.optimizers'] = types.SimpleNamespace(OptimizerDef=OptimizerDef, OptimizerState=OptimizerState)
  spec = importlib.util.spec_from_file_location('adafactor', path)
  adafactor = importlib.util.module_from_spec(spec)
  spec.loader.exec_module(adafactor)
  optimizer = adafactor.Adafactor(learning_rate=RATE, min_dim_size_to_factor=SIZE)
  params = tree(START)
  state = optimizer.init_state(params)
  for values in GRADIENTS:
    params, state = optimizer.apply_gradient(optimizer.hyper_params, params, state, tree(values))
  of_param = flat(state.param_states)[PARAM]
  arrays = {f'target/{PARAM}': flat(params)[PARAM]}
  arrays |= {f'state/param_states/{PARAM}/{slot}': getattr(of_param, slot) for slot in ['v_row', 'v_col']}
  with open(os.path.join(HERE, 'square.json'), 'w') as f:
    json.dump({name: np.float64(array).ravel().tolist() for name, array in arrays.items()}, f, indent=1)


if __name__ == '__main__':
  with_mesh_tensorflow()
  with_t5x(sys.argv[1])
