"""A call's request as the retry loop sees it, and the request of a stored conversation."""

import logging
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Protocol, TypeAlias, assert_never

from msgspec.structs import replace
from typing_extensions import override

from holdfast.decisions import retry
from holdfast.interfaces.journal import Blobs, JournalError
from holdfast.interfaces.model import Compact, EventSink
from holdfast.messages import PARTS, AssistantMessage, ModelRequest, Said, Thought
from holdfast.models.answer_writer import AnswerWriter
from holdfast.models.exchange import AnswerReceiver
from holdfast.models.parts import is_image
from holdfast.models.target_states import TargetStates
from holdfast.models.wire import REASONING_OFF, StreamParser, WireRequest
from holdfast.safe_text import safe_line
from holdfast.targets import WITHOUT_EFFORT, Target, unsupported
from holdfast.values import Failure, FilePart, ImagePart, Part, TextPart

_log = logging.getLogger(__name__)

LOWER_CAP = 0.5
CAP_TOKENS = 8_192  # if the request has no cap, and the wire's default was too large
SURELY_OVER = 0.7  # our token estimate may be a third too high, so only clearly larger requests are refused

UNSEEN = "[An image that you can't see{name}]"

AskForLess: TypeAlias = retry.Compact | retry.LowerCap | retry.DropReasoningOptions | retry.DropPastReasoning


class CallRequest(Protocol):
    """What one call asks, the same for all its attempts, and what may be done about a failure.

    `build` makes one attempt's POST and the parser of its answer, and `receiver` what takes that answer.
    `wait_ms_max` is the longest wait between two attempts: if a longer one is due, the call fails.
    """

    model: str  # the name or model of the preferred target; empty if the order of the targets decides
    input_tokens: int  # estimated
    asks_to_reason: bool  # a model that reasons may be silent for long
    is_streamed: bool  # the answer comes in pieces, and not as a whole at its end
    output_tokens_max: int  # of the answer; 0 if the request doesn't say
    answers: int  # that the provider charges for; 0 if the request is free
    wait_ms_max: int | None  # None means any
    waits_at_gates: bool  # a person's "try now" doesn't
    is_replaceable: bool  # a failed attempt can be replaced: no one has seen output that can't be taken back

    def unsupported(self, target: Target) -> Sequence[str]:
        """The options of the caller that a request to the target goes without."""
        ...

    def over_window_tokens(self, target: Target) -> int:
        """By how many tokens it surely exceeds the target's context window."""
        ...

    def decide(self, failure: Failure, history: retry.History) -> retry.Decision:
        """Decide how to continue after a failed attempt."""
        ...

    async def shorten(self) -> bool:
        """Shorten the conversation, after a decision to compact it; False if that isn't possible."""
        ...

    def ask_for_less(self, target: Target, decision: AskForLess) -> None:
        """Change what further attempts ask."""
        ...

    async def build(self, target: Target) -> tuple[WireRequest, StreamParser]:
        """The POST of one attempt, and the parser of its answer."""
        ...

    def receiver(
        self, sink: EventSink, target: Target, *, before_first: Callable[[], None]
    ) -> AnswerReceiver:
        """What takes an attempt's answer; it calls `before_first` before any visible output."""
        ...


class ConversationRequest(CallRequest):
    """A request made of messages; retries may shorten it, and the answer is written to the sink."""

    waits_at_gates = True
    is_replaceable = True
    answers = 1

    def __init__(
        self, request: ModelRequest, shared: TargetStates, blobs: Blobs, *, compact: Compact | None = None
    ) -> None:
        self.is_streamed = True
        self.output_tokens_max = 0
        self.wait_ms_max = None
        self._shared = shared
        self._blobs = blobs
        self._compact = compact
        self._begun_with = request
        self._compacted = compact is None
        self._cap_lowered = False
        self._forgot: set[str] = set()  # targets that refused their own earlier reasoning
        self._ask(request)

    def _ask(self, request: ModelRequest) -> None:
        self._request = request
        self.model = request.model
        self.input_tokens = request.input_tokens
        self.asks_to_reason = request.reasoning_effort not in {"", REASONING_OFF}

    @override
    def unsupported(self, target: Target) -> Sequence[str]:
        asked = self._begun_with
        if asked.options_are_ours:
            return ()
        found = unsupported(target, asked)
        if asked.reasoning_effort not in WITHOUT_EFFORT and self._shared.asks_plainly(target):
            found.append("reasoning_effort")
        return found

    @override
    def over_window_tokens(self, target: Target) -> int:
        return max(0, int(self.input_tokens * SURELY_OVER) - target.context_window)

    @override
    def decide(self, failure: Failure, history: retry.History) -> retry.Decision:
        current = next(target for target in history.targets if target.name == history.current)
        changed = replace(
            history,
            compacted=self._compacted,
            cap_lowered=self._cap_lowered,
            reasoning_options_dropped=self._shared.asks_plainly(current),
            past_reasoning_dropped=history.current in self._forgot,
        )
        return retry.decide(failure, changed)

    @override
    async def shorten(self) -> bool:
        self._compacted = True
        assert self._compact is not None, "without it the history says that compaction was tried"
        shorter = await self._compact()
        if shorter is not None:
            self._ask(shorter)
        return shorter is not None

    @override
    def ask_for_less(self, target: Target, decision: AskForLess) -> None:
        match decision:
            case retry.Compact():
                pass  # it is shorter already
            case retry.LowerCap():
                self._lower_cap(decision.output_tokens_max)
            case retry.DropReasoningOptions():
                self._shared.ask_plainly(target)
            case retry.DropPastReasoning():
                self._forgot.add(target.name)
            case _:
                assert_never(decision)

    @override
    async def build(self, target: Target) -> tuple[WireRequest, StreamParser]:
        from holdfast.models.adapters import adapter_of  # the wires, which only calls need

        request, adapter = _with_defaults(self._request, target), adapter_of(target.wire)
        if not target.vision:
            request = _without_images(request)
        if target.name in self._forgot:
            request = _without_thoughts(request, target)
        if self._shared.asks_plainly(target):
            request = replace(request, reasoning_effort=REASONING_OFF)
        built = adapter.build(request, target, blobs=await self._attachments(request))
        return built, adapter.parser_of(request, target)

    @override
    def receiver(self, sink: EventSink, target: Target, *, before_first: Callable[[], None]) -> AnswerWriter:
        return AnswerWriter(
            sink,
            tool_ids=lambda: self._tool_ids,
            owner_of=self._request.owner_of,
            call_tool=self._request.call_tool,
            before_first=before_first,
            bytes_max=self._request.answer_bytes_max,
        )

    @cached_property
    def _tool_ids(self) -> set[str]:
        """The ids of all tool calls so far; only an answer with a tool call needs them."""
        request = self._begun_with
        answers = [message for message in request.messages if isinstance(message, AssistantMessage)]
        return set(request.spent_tool_ids).union(*[answer.tool_ids for answer in answers if answer.tool_ids])

    def _lower_cap(self, tokens_max: int | None) -> None:
        self._cap_lowered = True
        asked = self._request.max_output_tokens
        cap = tokens_max or (int(asked * LOWER_CAP) if asked else CAP_TOKENS)
        effort = self._request.reasoning_effort
        if effort.isdecimal() and int(effort) >= cap:
            effort = ""  # a thinking budget must be smaller than the cap
        self._ask(replace(self._request, max_output_tokens=cap, reasoning_effort=effort))

    async def _attachments(self, request: ModelRequest) -> dict[str, bytes]:
        parts = [part for message in filter(PARTS, request.messages) for part in message.parts]
        names = {part.blob for part in parts if isinstance(part, ImagePart | FilePart)}
        found = {name: await self._blob(name) for name in names}
        return {name: data for name, data in found.items() if data is not None}

    async def _blob(self, name: str) -> bytes | None:
        """None if it's missing or damaged: the run continues without it, and the model is told."""
        try:
            return await self._blobs.blob(name)
        except JournalError as error:
            _log.warning("left an attachment out of the request: %s", error)
            return None


def _with_defaults(request: ModelRequest, target: Target) -> ModelRequest:
    """The request with the target's effort, temperature and limit where it has none."""
    if not target.has_defaults:
        return request
    is_set = request.temperature is not None
    return replace(
        request,
        reasoning_effort=request.reasoning_effort or target.reasoning_effort,
        temperature=request.temperature if is_set else target.temperature,
        max_output_tokens=request.max_output_tokens or target.max_output_tokens or None,
    )


def _without_images(request: ModelRequest) -> ModelRequest:
    """The request with notes in place of images."""
    messages = [
        replace(message, parts=tuple(map(_part_without_image, message.parts)))
        if not isinstance(message, AssistantMessage) and message.parts
        else message
        for message in request.messages
    ]
    return replace(request, messages=tuple(messages))


def _part_without_image(part: Part) -> Part:
    if isinstance(part, TextPart) or not is_image(part.media_type):
        return part
    name = safe_line(part.name)
    return TextPart(UNSEEN.format(name=f": {name}" if name else ""))


def _without_thoughts(request: ModelRequest, target: Target) -> ModelRequest:
    """The request without this target's reasoning."""
    messages = [
        AssistantMessage(tuple(item for item in message.items if not _is_thought(item, target)))
        if isinstance(message, AssistantMessage)
        else message
        for message in request.messages
    ]
    return replace(request, messages=tuple(messages))


def _is_thought(item: Said, target: Target) -> bool:
    return isinstance(item, Thought) and item.target == target.name
