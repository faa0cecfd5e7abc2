"""Ready-made scenarios, chosen by model name (`chaos/stall`) or by the header `x-chaos`."""

from collections.abc import Mapping

from msgspec import Struct, field

from holdfast.chaos.record import SeenRequest
from holdfast.chaos.script_text import BadScript, nearest, parse_attempts
from holdfast.chaos.source import Attempts
from holdfast.chaos.stage import Script
from holdfast.chaos.statuses import Status

PREFIX = "chaos/"
HEADER = "x-chaos"
HEADERS_KEPT_MAX = 256

# Each is a script text; where it has several attempts, requests for it take them in turn, over and over.
SCENARIOS: Mapping[str, str] = {
    "ok": "say Hello from the bad model server, which is well today.",
    "slow": "say-words 'This answer takes its time but never stops.' pace_s=0.5",
    "tool": "think 'a tool would help'; call-tool get_weather '{\"city\": \"Lisbon\"}'",
    "no-first-byte": "hang",
    "headers-only": "headers; hang",
    "opening-only": "begin; hang",
    "keep-alive": "begin; keep-alive pace_s=1",
    "silent-thinking": "open-item thinking; pause 20; say I have thought.",
    "stall": "say The answer is; hang",
    "stall-once": "say The answer is; hang | say The answer is 42.",
    "drip": "drip 1 pace_s=0.02; say Byte by byte.",
    "drop": "say The answer is; drop",
    "drop-once": "say The answer is; drop | say The answer is 42.",
    "end-without-marker": "say The answer is; end-of-body",
    "cut-call": 'cut-call get_weather \'{"city": "Lisbon"}\'; end-of-body',
    "malformed": "say The answer is; malformed",
    "flood": "flood; say That was much.",
    "error-event": "say The answer is; error-event",
    "rate-limit": "rate-limited-s 2 | say The answer is 42.",
    "rate-limit-always": "rate-limited-s 30",
    "quota": "insufficient-quota",
    "overload": "overloaded 529",
    "error": "server-error 500",
    "bad-key": "bad-key",
    "context-overflow": "context-overflow",
    "refuse": "refuse",
    "filter": "say I would; finish filtered",
    "truncate": "say The answer would be long; finish length",
    "empty": "finish",
    "repeat-end": "say The answer is 42.; finish times=2",
    "slow-upload": "read-slowly 10",
    "early-answer": "read-only 1000; too-large",
}


class ScenarioSource(Struct):
    """Scripts by header or model name; without either, the given default text."""

    default: str | None = None
    _attempts: dict[str, Attempts] = field(default_factory=dict[str, Attempts])

    def at_headers(self, request: SeenRequest) -> Script | None:
        """What the header asks for; it alone can name a scenario that begins before the body is read."""
        asked = request.headers.get(HEADER)
        if asked is not None:
            return self._take(SCENARIOS.get(asked.removeprefix(PREFIX), asked))
        return None if self.default is None else self._take(self.default)

    def at_body(self, request: SeenRequest) -> Script:
        """What the model name asks for."""
        name = request.model.removeprefix(PREFIX)
        if name not in SCENARIOS:
            message = f"there is no scenario {request.model!r}{nearest(name, SCENARIOS)}"
            return [Status(404, message=message, code="model_not_found")]
        return self._take(SCENARIOS[name])

    def _take(self, text: str) -> Script:
        if text not in self._attempts:
            if len(self._attempts) >= HEADERS_KEPT_MAX:
                del self._attempts[next(iter(self._attempts))]
            try:
                self._attempts[text] = Attempts(parse_attempts(text), "cycle")
            except BadScript as error:
                return [Status(400, message=str(error), code="bad_script")]
        return self._attempts[text].take()
