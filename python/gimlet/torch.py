"""Batches for torch's DataLoader."""

import torch


class TorchDataset(torch.utils.data.IterableDataset):
    """Dicts of tensors. Each of a DataLoader's workers reads a part of the data of its own.

    `state_dict` and `load_state_dict` are what torchdata's StatefulDataLoader asks for.
    """

    def __init__(self, dataset):
        self._dataset = dataset
        self._batches = None

    def __iter__(self):
        worker = torch.utils.data.get_worker_info()
        parts = self._dataset if worker is None else self._dataset.shard(worker.id, worker.num_workers)
        self._batches = iter(parts)
        for batch in self._batches:
            yield {name: torch.from_numpy(array) for name, array in batch.items()}

    def state_dict(self):
        return {"state": self._dataset.state if self._batches is None else self._batches.state}

    def load_state_dict(self, state):
        self._dataset = self._dataset.after(state["state"])
