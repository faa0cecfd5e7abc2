"""A wrong end of a program, in a file of its own: the program that it ends imports nothing else."""

import os


def leaves_at_once(number: int) -> None:
    """Ends the program and nothing else."""
    os._exit(128 + number)
