"""Batches for torch's DataLoader."""

import dataclasses

import torch


class TorchDataset(torch.utils.data.IterableDataset):
    """Dicts of tensors. Each of a DataLoader's workers reads a part of the data of its own.

    `state_dict` and `load_state_dict` are what torchdata's StatefulDataLoader asks for.
    """

    def __init__(self, dataset):
        self._dataset = dataset
        # The position of `load_state_dict`, for the next iteration alone.
        self._resumed = None
        self._batches = None

    def __iter__(self):
        dataset, self._resumed = (self._dataset if self._resumed is None else self._dataset.after(self._resumed)), None
        worker = torch.utils.data.get_worker_info()
        if worker is not None:
            if dataset.options["seed"] is None and dataset.state is None:
                # One seed for all workers, another one in each iteration: torch's is that of the iteration and the worker's number.
                options = dict(dataset.options, seed=(worker.seed - worker.id) % 2**63)
                dataset = dataclasses.replace(dataset, options=options)
            dataset = dataset.shard(worker.id, worker.num_workers)
        self._batches = iter(dataset)
        for batch in self._batches:
            yield {name: torch.from_numpy(array) for name, array in batch.items()}

    def state_dict(self):
        begun = self._dataset.state if self._resumed is None else self._resumed
        return {"state": begun if self._batches is None else self._batches.state}

    def load_state_dict(self, state):
        self._resumed, self._batches = state["state"], None
