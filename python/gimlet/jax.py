"""Batches as arrays of jax."""

import jax


class ToJax:
    """Puts a dict of arrays on devices."""

    def __init__(self, sharding):
        self._sharding = sharding

    def __call__(self, batch):
        if self._sharding is None:
            return jax.device_put(batch)
        return {name: jax.make_array_from_process_local_data(self._sharding, array) for name, array in batch.items()}
