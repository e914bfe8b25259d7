"""Gimlet from Python: batches of its tasks, checkpoints of every format, metrics, configurations and trained models as arrays.

Everything is computed by the program `gimlet`, which this package starts and reads through pipes. It needs NumPy, and torch or
jax only where their arrays are asked for.
"""

from gimlet.checkpoints import load_checkpoint, save_checkpoint
from gimlet.config import Macro, Reference, parse_config
from gimlet.data import Dataset, get_dataset
from gimlet.metrics import read_metrics
from gimlet.model import Answer, Model
from gimlet.process import GimletError, program

__all__ = [
    "Answer",
    "Dataset",
    "GimletError",
    "Macro",
    "Model",
    "Reference",
    "get_dataset",
    "load_checkpoint",
    "parse_config",
    "program",
    "read_metrics",
    "save_checkpoint",
]
