"""Numbers that the scripts of this folder share: weights and gradients, and what is kept of an array."""

import numpy as np


def noise(shape, seed):
    """Uniform in [-0.5, 0.5), exact in float32; `noise` of adafactor.rs is the same."""
    index = np.arange(int(np.prod(shape)), dtype=np.uint32) + np.uint32(seed * 1_000_003)
    with np.errstate(over="ignore"):
        index = (index ^ (index >> np.uint32(16))) * np.uint32(0x7FEB352D)
        index = (index ^ (index >> np.uint32(15))) * np.uint32(0x846CA68B)
        index = index ^ (index >> np.uint32(16))
    unit = (index >> np.uint32(8)).astype(np.float32) / np.float32(1 << 24) - np.float32(0.5)
    return unit.reshape(shape)


def sample(array, digits):
    """About 8 elements, evenly spaced, and the root mean square, with that many digits."""
    flat = np.asarray(array).astype(np.float32).reshape(-1)
    short = lambda x: float(f"{float(x):.{digits}g}")
    stride = max(1, len(flat) // 8)
    rms = float(np.sqrt(np.mean(flat.astype(np.float64) ** 2)))
    return {"shape": list(np.shape(array)), "rms": short(rms), "values": [short(x) for x in flat[::stride]]}
