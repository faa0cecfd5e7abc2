"""`holdfast` without a feature (python absent.py FEATURE WORDS).

Imports of the feature's folder fail, as if it had been deleted.
"""

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType


class Absent:
    """A finder that refuses one feature."""

    def __init__(self, feature: str) -> None:
        self._package = f"holdfast.features.{feature}"

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Raise for the feature's modules; leave all others to the next finder."""
        del path, target
        if name == self._package or name.startswith(f"{self._package}."):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None


if __name__ == "__main__":
    sys.meta_path.insert(0, Absent(sys.argv[1]))
    sys.argv[0:2] = ["holdfast"]
    from holdfast.cli.main import main

    sys.exit(main())
