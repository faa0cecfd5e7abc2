"""Small wrong implementations, one or more for each promise, with the check that must notice.

A check is a function of what is plugged in at a seam: it passes for the right thing and fails for the wrong
one. `channels.py` breaks what people are told on chat platforms, `chats.py` what people there can do and
see, `children.py` delegation, `confinement.py` the sandbox, `deliveries.py` the calls of chat platforms,
`nodes.py` servers that share a store, `parts.py` single functions and classes, `paths.py` the handling of
files and repositories, `programs.py` what an agent inside another program relies on, `recall.py` what agents
recall, `relay.py` the accounts of relayed calls, `run_logs.py` the log of a run, `runs.py` a process that
runs agents, `servers.py` what clients see over HTTP, `slack.py` a Slack channel. Those of features are in
features/, and wrong stores in journal/sabotage_journal.py.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

Check = Callable[[Any], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Sabotage:
    """What is right and what is wrong at one seam, and the check that tells them apart."""

    promise: str
    check: Check
    right: Any
    wrong: Any

    @property
    def name(self) -> str:
        wrong = getattr(self.wrong, "__name__", "values")
        return f"{self.promise}-{self.check.__name__.removeprefix('check_')}-{wrong}"
