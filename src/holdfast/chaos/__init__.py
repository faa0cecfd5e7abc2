"""A faulty model server, for tests of anything that calls a model.

`ChaosServer` speaks OpenAI Responses, OpenAI Chat Completions and Anthropic Messages on loopback, and answers
each request by a script:

    async with ChaosServer([Say("hel"), Hang()], [Say("hello")]) as chaos:
        ...                                    # chaos.base_url for OpenAI clients, chaos.url for Anthropic's
        await chaos.seen.until_request(2)      # what it saw, and conditions to wait for

A script without an ending finishes properly, with usage and the wire's terminal marker. Outside of
Python, `serve_chaos` answers by model name (`chaos/stall`, see SCENARIOS) or by the header `x-chaos`, which
holds a scenario's name or a script as text (`say hel; hang | say hello`). README.md here has more.
"""

from typing import TYPE_CHECKING

from holdfast.chaos.answer import ReportedUsage
from holdfast.chaos.faults import (
    CloseOnReuse,
    Comment,
    Drip,
    Drop,
    EndOfBody,
    Flood,
    Hang,
    HangUp,
    Headers,
    KeepAlive,
    Malformed,
    Raw,
    ReadOnly,
    ReadRest,
    ReadSlowly,
    SayInTwoWrites,
)
from holdfast.chaos.frames import SseStyle
from holdfast.chaos.gates import Gate
from holdfast.chaos.record import ClosedBy, RecordLimits, SeenConnection, SeenRequest, SeenTraffic
from holdfast.chaos.reply import Script, ScriptedReply, Step
from holdfast.chaos.server import ChaosOptions, ChaosServer
from holdfast.chaos.source import AfterLast, Attempts, Choose, Chosen, Routed, Source, by_model, by_path
from holdfast.chaos.statuses import (
    Status,
    bad_key,
    context_overflow,
    insufficient_quota,
    model_missing,
    overloaded,
    overloaded_s,
    rate_limited,
    rate_limited_ms,
    rate_limited_reset,
    rate_limited_s,
    rate_limited_until,
    server_error,
    too_large,
)
from holdfast.chaos.steps import (
    Begin,
    CallTool,
    CloseItem,
    CutCall,
    ErrorEvent,
    Finish,
    Lifecycle,
    OpenItem,
    Pause,
    Refuse,
    Say,
    SayWords,
    Think,
    Wait,
)

if TYPE_CHECKING:
    from holdfast.chaos.scenarios import SCENARIOS, BadScript, ScenarioSource, parse_attempts
    from holdfast.chaos.serve import chaos_in_thread, closed_port, serve_chaos, silent_port

__all__ = [
    "SCENARIOS",
    "AfterLast",
    "Attempts",
    "BadScript",
    "Begin",
    "CallTool",
    "ChaosOptions",
    "ChaosServer",
    "Choose",
    "Chosen",
    "CloseItem",
    "CloseOnReuse",
    "ClosedBy",
    "Comment",
    "CutCall",
    "Drip",
    "Drop",
    "EndOfBody",
    "ErrorEvent",
    "Finish",
    "Flood",
    "Gate",
    "Hang",
    "HangUp",
    "Headers",
    "KeepAlive",
    "Lifecycle",
    "Malformed",
    "OpenItem",
    "Pause",
    "Raw",
    "ReadOnly",
    "ReadRest",
    "ReadSlowly",
    "RecordLimits",
    "Refuse",
    "ReportedUsage",
    "Routed",
    "Say",
    "SayInTwoWrites",
    "SayWords",
    "ScenarioSource",
    "Script",
    "ScriptedReply",
    "SeenConnection",
    "SeenRequest",
    "SeenTraffic",
    "Source",
    "SseStyle",
    "Status",
    "Step",
    "Think",
    "Wait",
    "bad_key",
    "by_model",
    "by_path",
    "chaos_in_thread",
    "closed_port",
    "context_overflow",
    "insufficient_quota",
    "model_missing",
    "overloaded",
    "overloaded_s",
    "parse_attempts",
    "rate_limited",
    "rate_limited_ms",
    "rate_limited_reset",
    "rate_limited_s",
    "rate_limited_until",
    "serve_chaos",
    "server_error",
    "silent_port",
    "too_large",
]

# Loaded on first use, because the built-in demo model is a ChaosServer and should start quickly.
_LATER = {
    "scenarios": ("SCENARIOS", "BadScript", "ScenarioSource", "parse_attempts"),
    "serve": ("chaos_in_thread", "closed_port", "serve_chaos", "silent_port"),
}


def __getattr__(name: str) -> object:
    """Load the rest on first use."""
    from importlib import import_module

    for place, names in _LATER.items():
        if name in names:
            return getattr(import_module(f"holdfast.chaos.{place}"), name)
    raise AttributeError(f"module 'holdfast.chaos' has no attribute {name!r}")
