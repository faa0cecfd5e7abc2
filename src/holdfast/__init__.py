"""Holdfast runs AI agents that do not get lost."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.embedding import Agent
    from holdfast.host.hidden_process import hide_process
    from holdfast.targets import Target
    from holdfast.tools.functions import tool

__all__ = ["Agent", "Target", "__version__", "hide_process", "tool"]
__version__ = "0.1.0.dev0"

_PLACES = {
    "Agent": "holdfast.embedding",
    "Target": "holdfast.targets",
    "hide_process": "holdfast.host.hidden_process",
    "tool": "holdfast.tools.functions",
}


def __getattr__(name: str) -> object:
    """What is imported from here is loaded when it is used, so that `import holdfast` costs nothing."""
    from importlib import import_module

    if name not in _PLACES:
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)
