"""T5X's own Checkpointer, or Orbax's PyTree checkpointer, doing what `benches/checkpoint.rs` does, with the same JSON
lines. Run it through `compare_checkpoint.py`.

Needs jax, flax, orbax-checkpoint, tensorstore, tensorflow-cpu, clu, gin-config, and for T5X a checkout of
google-research/t5x, whose `t5x/checkpoints.py` runs as it is; packages that it imports and that take no part in saving
(TensorBoard, JEstimator) are stood in for. Arrays are on the host, and the state is one partition, as on one machine.
"""

import argparse
import ctypes
import functools
import importlib.machinery
import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import time
import types

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import flax.traverse_util
import jax
import numpy

STEP = 1000


def stand_in(name, **attributes):
    module = types.ModuleType(name)
    module.__spec__ = importlib.machinery.ModuleSpec(name, None)
    vars(module).update(attributes)
    sys.modules[name] = module
    parent, _, child = name.rpartition(".")
    if parent in sys.modules:
        setattr(sys.modules[parent], child, module)
    return module


def import_t5x(checkout):
    # Not through `t5x/__init__.py`, which imports everything.
    stand_in("t5x", __path__=[str(pathlib.Path(checkout) / "t5x")])
    stand_in("cached_property", cached_property=functools.cached_property)
    stand_in("jestimator", __path__=[])
    stand_in("jestimator.amos", ScaleByAmosState=type("State", (), {}), amos=None)
    stand_in("jestimator.amos_helper", state_partition_rule=None)
    for name in ("tensorboard", "tensorboard.backend", "tensorboard.backend.event_processing"):
        stand_in(name, __path__=[])
    for name in ("directory_watcher", "event_file_loader", "io_wrapper"):
        stand_in(f"tensorboard.backend.event_processing.{name}")
    from t5x import checkpoints
    return checkpoints


class State:
    """What a Checkpointer asks of a train state."""

    def __init__(self, tree):
        self.tree = tree

    @property
    def step(self):
        return self.tree["state"]["step"]

    def state_dict(self):
        return self.tree

    def restore_state(self, tree):
        return State(tree)


class Partitioner:
    """One host that holds everything. Like T5X's, it has no axes for factored states, dummies and scalars."""

    params_on_devices = False
    mesh = jax.sharding.Mesh(numpy.array(jax.devices()), ("data",))

    def get_data_layout(self):
        return types.SimpleNamespace(shard_id=0, num_shards=1, is_first_host_in_replica_set=True)

    def get_mesh_axes(self, state):
        def axes(path, array):
            name = path[-1].key
            whole = array.ndim == 0 or name in ("v_row", "v_col") or array.shape == (1,)
            return None if whole else jax.sharding.PartitionSpec(*[None] * array.ndim)
        return State(jax.tree_util.tree_map_with_path(axes, state.state_dict()))

    def get_local_chunk_info(self, shape, _):
        return types.SimpleNamespace(slice=tuple(slice(None) for _ in shape), replica_id=0)


def tree(shapes, fill):
    flat = {tuple(name.split("/")): fill(shape) for name, shape in shapes}
    flat["state", "step"] = numpy.int32(STEP)
    return flax.traverse_util.unflatten_dict(flat)


def at_step(state, step):
    return {**state, "state": {**state["state"], "step": numpy.int32(step)}}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--operation", choices=["save", "restore"], required=True)
    parser.add_argument("--peer", choices=["t5x", "orbax"], required=True)
    parser.add_argument("--arrays", required=True)
    parser.add_argument("--dir", required=True)
    parser.add_argument("--t5x", help="a checkout of google-research/t5x")
    args = parser.parse_args()
    shapes = json.loads(pathlib.Path(args.arrays).read_text())
    random = numpy.random.default_rng(0)
    normal = lambda shape: random.standard_normal(shape, dtype=numpy.float32) * numpy.float32(0.05)
    is_save = args.operation == "save"
    state = tree(shapes, normal if is_save else functools.partial(numpy.broadcast_to, numpy.float32(0)))

    if args.peer == "t5x":
        checkpointer = import_t5x(args.t5x).Checkpointer(State(state), Partitioner(), args.dir, keep=1)
        save = lambda step: checkpointer.save(State(at_step(state, step)))
        restore = lambda: checkpointer.restore(step=STEP).state_dict()
    else:
        import orbax.checkpoint as ocp
        checkpointer = ocp.PyTreeCheckpointer()
        path = lambda step: os.path.join(args.dir, f"checkpoint_{step}")
        save = lambda step: checkpointer.save(path(step), at_step(state, step))
        restore = lambda: checkpointer.restore(path(STEP))

    if is_save:  # The second one counts, as in `benches/checkpoint.rs`.
        save(STEP - 1)
        shutil.rmtree(os.path.join(args.dir, f"checkpoint_{STEP - 1}"), ignore_errors=args.peer == "t5x")
        ctypes.CDLL(None).syncfs(os.open(args.dir, os.O_RDONLY))
    # Why is said in `benches/checkpoint.rs`.
    subprocess.run([sys.executable, "-c", "import numpy; numpy.ones(4 << 30, numpy.uint8)"], check=True)
    start, cpu = time.perf_counter(), time.process_time()
    found = save(STEP) if is_save else restore()
    if is_save:
        # TensorStore has synced its files; this is the rest.
        ctypes.CDLL(None).syncfs(os.open(args.dir, os.O_RDONLY))
    seconds = time.perf_counter() - start
    if not is_save:
        restored = flax.traverse_util.flatten_dict(found)
        assert len(restored) == len(shapes) + 1 and all(numpy.asarray(array).size for array in restored.values())
    print(json.dumps({
        "operation": args.operation,
        "seconds": seconds,
        "cpu_seconds": time.process_time() - cpu,
        "bytes": sum(4 * int(numpy.prod(shape)) for _, shape in shapes),
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }))


if __name__ == "__main__":
    main()
