"""Prints learning rates of Mesh TensorFlow for the tests of src/schedule/of_total.rs.

Made with tensorflow-cpu 2.21.0 and mesh-tensorflow 0.1.21 (python 3.11), whose schedules need none of its other modules.
    python tests/numerics/mesh_schedules.py
"""

import importlib.util
import os
import sys

import tensorflow.compat.v1 as tf

# The package itself does not import with TensorFlow 2.21.
folder = os.path.dirname(importlib.util.find_spec('mesh_tensorflow').origin)
spec = importlib.util.spec_from_file_location('schedules', os.path.join(folder, 'transformer/learning_rate_schedules.py'))
schedules = importlib.util.module_from_spec(spec)
spec.loader.exec_module(schedules)

STEPS, TOTAL = [0, 1, 50, 899, 950, 1000], 1000


def of(function, **params):
  return lambda step, total: function(step, total, **params)


CASES = {
    'noam': of(schedules.learning_rate_schedule_noam, warmup_steps=40, multiplier=0.5),
    'noam with an offset': of(schedules.learning_rate_schedule_noam, warmup_steps=40, linear_decay_fraction=0.0, offset=20),
    'linear_decay_learning_rate': of(schedules.linear_decay_learning_rate, offset=100),
    'slanted_triangular': of(schedules.slanted_triangular),
    'product': of(
        schedules.product_learning_rate,
        factors=[2, schedules.truncated_rsqrt, of(schedules.linear_warmup, steps_or_fraction=0.2), schedules.linear_decay, 3.0],
        offset=-100),
}

if __name__ == '__main__':
  for name, schedule in CASES.items():
    with tf.Graph().as_default(), tf.Session() as session:
      step = tf.placeholder(tf.int32, [])
      rate = tf.cast(schedule(step, TOTAL), tf.float32)
      print(name, [float('%.9g' % session.run(rate, {step: at})) for at in STEPS])
