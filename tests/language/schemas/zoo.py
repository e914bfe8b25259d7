"""A small project that gin-config configures; reference.py dumps its schema and runs it."""

import enum

import gin

gin.constant("zoo.VISITORS", 100)


@gin.constants_from_enum
class Diet(enum.Enum):
    MEAT = 1
    GRASS = 2


@gin.register
class Animal:
    """Something to look at."""

    def __init__(self, name, diet=Diet.GRASS, meals=(8, 18), **traits):
        pass

    @gin.register
    def feed(self, amount=1.5):
        pass


@gin.configurable(denylist=["day"])
def open_zoo(animals=gin.REQUIRED, keeper=None, day="today", prices={"adults": 12.5}):
    """Opens the gates."""
