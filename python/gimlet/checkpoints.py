"""Checkpoints of every format as nested dicts of arrays under T5X's names."""

import pathlib
import tempfile

from gimlet import safetensors
from gimlet.process import GimletError, Process, flags, run


def load_checkpoint(path, filter=None):
    """The arrays of a checkpoint of any format that Gimlet reads, here or in a bucket, as T5X has them:
    `["target"]["encoder"]["layers_0"]["attention"]["query"]["kernel"]`, and the step and the optimizer's state in `["state"]`.

    `path` may be DIR:last, DIR:best or DIR:STEP. `filter` is a regular expression found in the names to load, such as "^target/".
    bfloat16 needs ml_dtypes; without that package such arrays become float32.
    """
    process = Process("checkpoint", "arrays", path, *flags({"filter": filter}), given=b"")
    try:
        arrays = safetensors.read(process.output)
        process.check()
    finally:
        process.close()
    if arrays is None:
        raise GimletError(f"the arrays of {path} ended early")
    return _nested(arrays)


def save_checkpoint(path, tree, format=None, **options):
    """Writes a nested dict of arrays, as `load_checkpoint` returns it, as `gimlet checkpoint convert --to FORMAT` does.

    For t5x and orbax, `path` is a folder's new `checkpoint_N`. For hugging_face, torch and flax the model must be known:
    `gin_file`, the configuration of the run or a `config.json`. Other options are that command's flags, such as `dtype`. The
    arrays are first written as one file beside a local `path`, or into the system's folder for temporary files.
    """
    arrays = dict(_flat(tree))
    if not arrays:
        raise ValueError("there are no arrays to save")
    stray = [name for name in arrays if not name.startswith(("target/", "state/"))]
    if stray:
        raise ValueError(f"`{stray[0]}` is in neither ['target'] nor ['state'], the two parts of a checkpoint of T5X")
    beside = None if "://" in str(path) else pathlib.Path(path).absolute().parent
    if beside is not None:
        beside.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=beside) as folder:
        file = pathlib.Path(folder) / "arrays.safetensors"
        with open(file, "wb") as out:
            safetensors.write(out, arrays)
        run("--quiet", "checkpoint", "convert", file, path, *flags(dict(options, to=format)))


def _nested(arrays):
    tree = {}
    for name, array in arrays.items():
        *folders, last = name.split("/")
        branch = tree
        for folder in folders:
            branch = branch.setdefault(folder, {})
        branch[last] = array
    return tree


def _flat(tree, prefix=""):
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}/")
        else:
            yield prefix + str(name), value
