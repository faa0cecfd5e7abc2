"""Requests that real clients sent, shortened; bench/clients.py and bench/relay_clients.py record them."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.targets import Wire

_WIRES: Mapping[str, Wire] = {
    "/v1/chat/completions": "chat",
    "/v1/responses": "responses",
    "/v1/messages": "anthropic",
}


@dataclass(frozen=True, slots=True)
class Recorded:
    """One request as it was sent, without credentials."""

    path: str
    headers: Mapping[str, str]
    body: str

    @property
    def wire(self) -> Wire:
        """The protocol that it speaks."""
        return _WIRES[self.path.partition("?")[0]]

    @property
    def fields(self) -> dict[str, Any]:
        """Its body, decoded."""
        return json.loads(self.body)

    def bytes_for(self, model: str) -> bytes:
        """Its body with another model; every other byte as it was sent."""
        sent = re.escape(json.dumps(self.fields["model"]))
        changed, times = re.subn(rf'("model"\s*:\s*){sent}', rf'\g<1>"{model}"', self.body, count=1)
        assert times == 1
        return changed.encode()


def _read() -> Mapping[str, Sequence[Recorded]]:
    known = json.loads((Path(__file__).parent / "recorded_requests.json").read_text("utf-8"))
    return {name: [Recorded(**one) for one in requests] for name, requests in known.items()}


RECORDED = _read()
PROGRAMS = ("claude", "codex", "codex-built-in", "opencode", "aider")
