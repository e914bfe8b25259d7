"""A project that gin files register through their imports; reference.py dumps its schema and prints it."""

import gin
from zoo import Animal, open_zoo  # The same as zoo.Animal, which a decorator registers.


class Barn:
    """Where animals sleep."""

    def __init__(self, size=gin.REQUIRED, door=None):
        pass

    def sweep(self, broom="straw"):
        pass


def run(barn, animals=(), plan=None, store=None, days=1):
    """Farms."""


@gin.register
def constant(rate=1.0):
    """A function of a name that gin has too."""


@gin.register
def macro(steps=1):
    """Another one."""
