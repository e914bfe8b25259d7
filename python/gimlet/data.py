"""Batches of a task or mixture as dicts of arrays, with SeqIO's meaning of every setting."""

import dataclasses
import fcntl

from gimlet import safetensors
from gimlet.process import Process, flags

# As much as a pipe may hold without privileges; Linux's number of the request.
_PIPE_BYTES, _SET_PIPE_SIZE = 1 << 20, 1031


@dataclasses.dataclass(frozen=True)
class Dataset:
    """The batches of a task or mixture. Each iteration is a program of its own, which begins after `state`."""

    name: str
    options: dict
    num_shards: int = 1
    shard_index: int = 0
    batch_size: int = 128
    state: str | None = None
    # Turns a dict of NumPy's arrays into another.
    convert: object = None

    def __iter__(self):
        return BatchIterator(self)

    def after(self, state):
        """The same batches, from the one after a `BatchIterator.state` on."""
        return dataclasses.replace(self, state=state)

    def shard(self, index, count):
        """One of `count` parts, each with as many rows in a batch as this one: a part of the files, or of the rows of all."""
        return dataclasses.replace(self, num_shards=self.num_shards * count, batch_size=self.batch_size * count,
                                   shard_index=self.shard_index * count + index)

    def as_torch(self):
        """A `torch.utils.data.IterableDataset` of dicts of tensors, for a DataLoader with `batch_size=None`."""
        from gimlet.torch import TorchDataset

        return TorchDataset(self)

    def as_jax(self, sharding=None):
        """The same batches as dicts of jax's arrays: on the default device, or laid out by a sharding, of which every process
        gives its rows."""
        from gimlet.jax import ToJax

        return dataclasses.replace(self, convert=ToJax(sharding))

    def words(self):
        named = dict(self.options, num_shards=self.num_shards, shard_index=self.shard_index, batch_size=self.batch_size)
        resumed = [] if self.state is None else ["--resume=/dev/stdin"]
        return ["task", "stream", self.name, *flags(named), *resumed]


class BatchIterator:
    """Dicts of arrays [rows, length]. `state`, a text, is the position after the last one, for `Dataset.after`."""

    def __init__(self, dataset):
        self.state = dataset.state
        self._convert = dataset.convert
        self._process = Process(*dataset.words(), given=(dataset.state or "").encode())
        try:
            fcntl.fcntl(self._process.output, _SET_PIPE_SIZE, _PIPE_BYTES)
        except OSError:
            pass

    def __iter__(self):
        return self

    def __next__(self):
        if self._process is None:
            raise StopIteration
        data = self._read()
        if data is None:
            process, self._process = self._process, None
            try:
                process.check()
            finally:
                process.close()
            raise StopIteration
        arrays, metadata = safetensors.of_bytes(data)
        self.state = metadata["state"]
        return arrays if self._convert is None else self._convert(arrays)

    def _read(self):
        try:
            size = self._process.output.read(8)
            data = bytearray(int.from_bytes(size, "little"))
            is_whole = len(size) == 8 and self._process.output.readinto(data) == len(data)
            return data if is_whole else None
        except BaseException:
            # An interrupt may have taken a part of a batch; `Dataset.after` goes on.
            self.close()
            raise

    def close(self):
        """Ends the program."""
        if self._process is not None:
            self._process.close()
            self._process = None

    __del__ = close


def get_dataset(task, split="train", lengths=None, *, batch_size=128, shuffle=True, seed=None, num_epochs=None, pack=False,
                feature_converter="EncDecFeatureConverter", use_cached=False, trim=True, drop_remainder=True, num_shards=1,
                shard_index=0, state=None, module=None, gin_file=None, gin_bindings=None, search_paths=None, cache_dirs=None):
    """The batches of a task or mixture that gin files or SeqIO's modules declare.

    `lengths` maps features to tokens, those of the longest examples if it is None. `batch_size` counts the rows over all shards;
    each of `num_shards` hosts gets its part of each batch, and all are given one `seed`. `module` and `gin_file`, one or a list, are searched for the task;
    without either, all tasks that come with Gimlet are. `cache_dirs` are those of cached tasks. `state` is that of a `BatchIterator`, whose next batch comes first.
    Mistakes are a GimletError at the first batch.
    """
    options = dict(split=split, no_shuffle=not shuffle, seed=seed, num_epochs=num_epochs, pack=pack, use_cached=use_cached,
                   feature_converter=feature_converter, no_trim=not trim, keep_remainder=not drop_remainder, module_import=module,
                   gin_file=gin_file, gin_bindings=gin_bindings, gin_search_paths=search_paths,
                   seqio_additional_cache_dirs=cache_dirs)
    if lengths:
        options["task_feature_lengths"] = ",".join(f"{feature}={length}" for feature, length in lengths.items())
    return Dataset(task, options, num_shards, shard_index, batch_size, state)
