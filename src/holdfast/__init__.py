"""Holdfast runs AI agents that do not get lost."""

__version__ = "0.1.0.dev0"
