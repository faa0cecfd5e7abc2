"""What is promised, as data: every id must be named by a test, or stand among what is not built yet."""

from collections.abc import Mapping
from types import MappingProxyType

PROMISES: Mapping[str, str] = MappingProxyType(
    {
        "P1": "Seen is saved.",
        "P2": "Accepted is kept.",
        "P3": "Nothing hangs.",
        "P4": "One true ending.",
        "P5": "Stop means stopped.",
        "P6": "A crash is a pause.",
        "P7": "Any client, any time, any cursor: the same log.",
        "P8": "An approval is one exact action.",
        "P9": "Quiet when it works, complete when it does not.",
        "P10": "No cross-talk.",
        "P11": "Nobody gets in, and no secret gets out.",
        "P12": "Bad input gets a clear error and leaves nothing behind.",
        "P13": "What isn't allowed can't be done, and covered changes can be undone.",
        "P14": "Every scheduled action runs exactly once.",
    }
)


def _numbered(seed: str, most: int) -> dict[str, str]:
    return {f"{seed}-{number}": seed for number in range(1, most + 1)}


# The behaviours that started this project: watchdogs, lost responses, cascading interrupts, the runs API.
SEEDS: Mapping[str, str] = MappingProxyType(
    {
        **_numbered("S000", 12),
        **_numbered("S001", 2),
        **_numbered("S002", 8),
        **_numbered("S003", 3),
        **_numbered("S004", 22),
    }
)

# Not built yet. An id leaves this list when a test names it; the suite says when that is.
LATER: frozenset[str] = frozenset()
