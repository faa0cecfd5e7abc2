"""Records of relayed calls."""

from typing import Literal

from holdfast.events.bases import Input
from holdfast.values import Failure


class RelayCalled(Input, frozen=True, kw_only=True, tag="relay.called"):
    """The record of a completed relayed call: its key, target and usage."""

    call_id: str
    key: str  # the name of the API key
    wire: str  # the protocol of the client
    model: str = ""  # the model name in the request
    target: str = ""  # the target of the last attempt
    outcome: Literal["completed", "failed", "cancelled"] = "completed"
    failure: Failure | None = None
    attempts: int = 0
    ms: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    cost_usd: float | None = None
    estimated: bool = False  # the provider reported no usage, so this is Holdfast's estimate
