"""Stands in for `t5x.checkpoints` in programs that read checkpoints. Written by `gimlet shims`."""

import pathlib

from gimlet import load_checkpoint


def load_t5x_checkpoint(path, step=None, state_transformation_fns=(), remap=True, lazy_parameters=False):
    """The arrays of a checkpoint of any format that Gimlet reads, as T5X's function of this name returns those of its own.

    Of a folder of checkpoints, it is that of the step, or the newest.
    """
    if state_transformation_fns or not remap:
        raise NotImplementedError("load_t5x_checkpoint of `gimlet shims` knows T5X's present names alone: "
                                  "leave out state_transformation_fns and remap=False")
    folder = path.removesuffix("/") if isinstance(path, str) else str(path)
    is_itself = pathlib.PurePath(folder).name.startswith("checkpoint_")
    if step is not None and not is_itself:
        return load_checkpoint(f"{folder}:{step}")
    return load_checkpoint(folder)
