"""The routes of relayed models, and the decision which names they are."""

import asyncio
import codecs
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import asdict
from starlette.requests import Request
from typing_extensions import override

from holdfast import events as e
from holdfast.config.settings import RelaySettings
from holdfast.features.relay.call_log import CallLog, LoggedEvents, LoggedReceiver
from holdfast.features.relay.calls import DetachedCalls, RelayedCall, names_to_join, names_to_keep
from holdfast.features.relay.headers import HeadersUp
from holdfast.features.relay.metering import MeteredEvents, Requester
from holdfast.features.relay.raw_request import RawRequest, check_one_model, model_in, raw_request
from holdfast.features.relay.records import CallRecords
from holdfast.features.relay.requests import Forwarded, RelayedRequest, Translation
from holdfast.features.relay.response import RelayResponse, RelayTimes
from holdfast.features.relay.response_buffer import ResponseBuffer
from holdfast.features.relay.surfaces import (
    COMPACTING,
    COUNTING,
    PLAIN_PATHS,
    SHARED,
    SURFACES,
    Surface,
    not_at_target,
    not_for_agents,
    plain_surface,
)
from holdfast.features.relay.translation.as_responses import repeated_fields
from holdfast.features.relay.translation.choices import untranslatable
from holdfast.features.relay.translation.conversations import not_translatable, thread_unsupported
from holdfast.features.relay.translation.receiver import AnswerForm
from holdfast.features.relay.translation.requests import translated_with_images
from holdfast.interfaces.ids import new_run_id
from holdfast.interfaces.model import Answer, NoAnswer
from holdfast.messages import ModelRequest
from holdfast.model_events import TokensUsed
from holdfast.models.call import ModelCalls
from holdfast.server.access.budgets import CallReservation
from holdfast.server.access.caller import KEY_NAME, check_scope
from holdfast.server.lazy_endpoints import RouteParts
from holdfast.server.model_names import AGENT_NAMES, AGENT_ON, ModelNames, ModelResolver, is_hermes
from holdfast.server.options import ServerOptions
from holdfast.server.problems import Problem
from holdfast.server.runs.requests import agent_names
from holdfast.server.transport.bodies import LARGE_BYTES, json_response, read_decoded
from holdfast.targets import Target, Wire

T = TypeVar("T")
OUTPUT_TOKENS = 1024  # what a call is expected to make if its request sets no limit


class RelayNames(Struct, frozen=True):
    """The names of targets, their models, and the aliases and patterns of the configuration."""

    targets: tuple[Target, ...]
    models: Mapping[str, Sequence[str]]

    def targets_of(self, name: str) -> tuple[Target, ...]:
        """The targets behind a name, in order of preference; empty if the name isn't relayed."""
        if name in AGENT_NAMES or name.startswith(AGENT_ON):
            return ()
        if name in self.models:
            return self._named(self.models[name])
        named = [target for target in self.targets if target.name == name]
        if found := named or [target for target in self.targets if target.model == name]:
            return (found[0],)
        for pattern, names in self.models.items():
            if fnmatchcase(name, pattern):
                return self._named(names)
        return ()

    def default_of(self, wire: str) -> tuple[Target, ...]:
        """The target for a surface that always relays: the first of its wire, or else the first."""
        same = [target for target in self.targets if target.wire == wire]
        return (*same, *self.targets)[:1]

    def listed(self) -> list[str]:
        """Return every relayed name that can be listed. Patterns can't."""
        plain = [name for name in self.models if not set(name) & set("*?[")]
        named = [target.name for target in self.targets]
        return list(dict.fromkeys([*plain, *named, *(target.model for target in self.targets)]))

    def _named(self, names: Sequence[str]) -> tuple[Target, ...]:
        by_name = {target.name: target for target in self.targets}
        return tuple(by_name[name] for name in names if name in by_name)


class RelayOptions(RelaySettings, frozen=True, kw_only=True):
    """The settings of the relay, and times that have no setting."""

    hold_s: float = 10.0  # how long a response is held while attempts can still be replaced unseen
    keep_alive_s: float = 15.0
    join_s: float = 30.0  # how long a call lives after its client has left, if a repeat may join it


def _options_of(given: RelaySettings | None) -> RelayOptions:
    """The options; a server without settings has the defaults."""
    return given if isinstance(given, RelayOptions) else RelayOptions(**asdict(given) if given else {})


class RelayRoutes(ModelResolver):
    """The routes of relayed models, and their answers on the routes that they share with agents."""

    owner = "holdfast-relay"

    def __init__(self, parts: RouteParts) -> None:
        deps = self._deps = parts.deps
        self._options = options = _options_of(deps.options.features.get("relay"))
        # These outlive requests: records being written, and calls whose client disconnected.
        self._records = CallRecords(deps.store)
        self._detached = DetachedCalls(deps.clock, join_s=options.join_s)
        targets = deps.options.targets if deps.options.calls is not None else ()
        self._relayed = RelayNames(targets, options.models)
        self._names = ModelNames(deps.options, (self,), partial(agent_names, deps))
        self._headers_up = HeadersUp(options.headers)
        self._via = f"holdfast {secrets.token_hex(8)}"  # so that a loop is noticed
        self._times = RelayTimes(hold_s=options.hold_s, keep_alive_s=options.keep_alive_s)
        parts.closing.push_async_callback(self._close)

    async def _close(self) -> None:
        """End the calls, then write the remaining records."""
        await self._detached.close()
        await self._records.close()

    @override
    def listed(self) -> list[str]:
        return self._relayed.listed()

    @override
    def has(self, name: str) -> bool:
        return bool(self._relayed.targets_of(name))

    @override
    async def answer(self, request: Request, body: bytes) -> Any | None:
        self._check_loop(request)
        surface = SHARED[request.scope["path"]]
        name = await _model_in(body)
        targets = () if not name or is_hermes(request) else self._relayed.targets_of(name)
        if not targets:
            await self._check_agent_request(request, body, name)
            return None
        check_scope(request.scope, "relay")
        if surface.is_answer:
            return await self._relay(request, surface, body, targets)
        if targets[0].wire == surface.wire:
            return await self._relay(request, surface, body, targets[:1])
        if surface is COMPACTING:
            raise not_at_target(surface.path, targets[0])
        return await self._estimate(body, surface.wire, {"object": "response.input_tokens"})

    async def _check_agent_request(self, request: Request, body: bytes, name: str | None) -> None:
        """Raise a Problem for a request that no agent can answer."""
        await _off_loop(check_one_model, body)
        await self._names.insist_on_agent(name, request)
        try:
            check_scope(request.scope, "chat")
        except Problem:
            # A key that only relays can't have meant the agent: its body is broken, or names no model.
            await _off_loop(partial(raw_request, wire="chat"), body)
            raise

    async def messages(self, request: Request) -> Any:
        """POST /v1/messages, which always relays."""
        check_scope(request.scope, "relay")
        body = await self._body(request)
        return await self._relay(
            request, SURFACES["anthropic"], body, await self._model_targets(request, body)
        )

    async def count_tokens(self, request: Request) -> Any:
        """POST /v1/messages/count_tokens: the provider's count, or on another wire our estimate."""
        check_scope(request.scope, "relay")
        body = await self._body(request)
        targets = await self._model_targets(request, body)
        if targets and targets[0].wire == "anthropic":
            return await self._relay(request, COUNTING, body, targets[:1])
        if not targets:
            raise self._names.not_found(raw_request(body, "anthropic").model)
        return await self._estimate(body, "anthropic", {})

    async def _estimate(self, body: bytes, wire: Wire, fields: dict[str, Any]) -> Any:
        """Our count of the input tokens, for a target on another wire."""
        asked = await translated_with_images(raw_request(body, wire), self._deps.options, {})
        return json_response(
            {**fields, "input_tokens": asked.input_tokens}, headers={"X-Holdfast-Estimate": "true"}
        )

    async def _model_targets(self, request: Request, body: bytes) -> tuple[Target, ...]:
        """The targets for a route that relays every name, except an agent's, which it can't run."""
        name = await _model_in(body) or ""
        if self._names.is_agent(name):
            raise not_for_agents(name, request.scope["path"])
        return self._relayed.targets_of(name) or self._relayed.default_of("anthropic")

    async def plain(self, request: Request) -> Any:
        """POST /v1/completions and /v1/embeddings, which only relayed models have."""
        check_scope(request.scope, "relay")
        body = await self._body(request)
        name = await _model_in(body) or ""
        targets = self._relayed.targets_of(name)
        if self._names.is_agent(name):
            raise not_for_agents(name, request.scope["path"])
        surface = plain_surface(PLAIN_PATHS[request.scope["path"]], targets)
        usable = tuple(target for target in targets if target.wire == surface.wire)
        return await self._relay(request, surface, body, usable)

    async def _body(self, request: Request) -> bytes:
        self._check_loop(request)
        limits = self._deps.limits
        body = await read_decoded(
            request, limits, bytes_max=max(limits.relayed_bytes_max, limits.body_bytes_max)
        )
        return body.removeprefix(codecs.BOM_UTF8)

    def _check_loop(self, request: Request) -> None:
        """Refuse a request that has been here: a target's address leads back to this server."""
        passed = [one.strip() for value in request.headers.getlist("via") for one in value.split(",")]
        if self._via in passed:
            raise Problem(
                508,
                "This request came from this server: a target's base_url leads back here. Check base_url in "
                "the configuration, and OPENAI_BASE_URL and ANTHROPIC_BASE_URL",
                code="relay_loop",
            )

    async def _relay(
        self, request: Request, surface: Surface, body: bytes, targets: tuple[Target, ...]
    ) -> Any:
        raw = await _off_loop(partial(raw_request, wire=surface.wire), body)
        calls = self._deps.options.calls
        if calls is None or not targets:
            raise self._names.not_found(raw.model)
        key: str = request.scope[KEY_NAME]
        may_join = surface.is_answer and self._options.keep == "all"
        if may_join and (under_way := self._to_join(request, body)) is not None:
            return self._response(under_way)
        deps, options = self._deps, self._options
        usable, translation = await _translated(raw, targets, deps.options)
        buffer = ResponseBuffer(surface, deps.agent.secrets)
        forwarded = Forwarded(
            self._headers_up.of(request.scope["headers"]),
            request.scope["query_string"].decode(errors="replace"),
            ", ".join([*request.headers.getlist("via"), self._via]),
        )
        asked = RelayedRequest(
            raw,
            buffer,
            forwarded=forwarded,
            wait_ms_max=int(1000 * options.wait_s),
            translation=translation,
        )
        caller, by = ModelCalls(calls, usable), Requester(key, raw.model)
        if options.keep != "all" or not surface.is_answer:
            return self._response(RelayedCall(asked, buffer, make=partial(self._made, caller, asked, by)))
        names = names_to_keep(request, body)
        if names:
            buffer.keep_all()
        make = partial(self._logged, caller, asked, raw, by)
        return self._response(RelayedCall(asked, buffer, make=make, names=names))

    def _to_join(self, request: Request, body: bytes) -> RelayedCall | None:
        """The call that an earlier try of this request began, if it may be joined."""
        names = names_to_join(request, body)
        return self._detached.take(names) if names else None

    def _response(self, call: RelayedCall) -> RelayResponse:
        deps = self._deps
        return RelayResponse(
            call,
            detached=self._detached,
            times=self._times,
            streams=deps.streams,
            streams_max=deps.limits.subscribers_max,
        )

    async def _made(self, caller: ModelCalls, asked: RelayedRequest, by: Requester) -> Answer | NoAnswer:
        """Make the call, and record it however it ends; its response ends after that."""
        deps = self._deps
        sink = MeteredEvents(new_run_id(), deps.clock, buffer=asked.buffer, metrics=deps.metrics, by=by)
        ended: Answer | NoAnswer | None = None
        async with self._spending(caller, asked, by):
            try:
                ended = await caller.make(asked, sink, turn=1)
                return ended
            finally:
                record = _closed(sink, ended)
                if self._options.keep != "none" and not asked.buffer.surface.is_free:
                    await self._records.add(record)

    def _spending(
        self, caller: ModelCalls, asked: RelayedRequest, by: Requester
    ) -> AbstractAsyncContextManager[None]:
        """The call in its key's budget, from before it is made until it is on record."""
        if asked.buffer.surface.is_free or not self._deps.budgets.has_limits(by.key):
            return nullcontext()
        output_tokens = asked.answers * (asked.output_tokens_max or OUTPUT_TOKENS)
        most = TokensUsed(input_tokens=asked.input_tokens, output_tokens=output_tokens)
        usd = caller.deps.prices.cost_usd(caller.targets[0], most) or 0.0
        return self._deps.budgets.spending(
            by.key, CallReservation(most.input_tokens + most.output_tokens, usd)
        )

    async def _logged(
        self, caller: ModelCalls, asked: RelayedRequest, raw: RawRequest, by: Requester
    ) -> Answer | NoAnswer:
        """The same with a log of everything."""
        deps = self._deps
        sink = LoggedEvents(new_run_id(), deps.clock, buffer=asked.buffer, metrics=deps.metrics, by=by)
        asked.around = lambda receiver: LoggedReceiver(receiver, sink)
        log = CallLog(deps, sink)
        async with self._spending(caller, asked, by), log.opened(raw, by.key):
            ended: Answer | NoAnswer | None = None
            try:
                ended = await caller.make(asked, sink, turn=1)
                return ended
            finally:
                await log.end(_closed(sink, ended), ended)


async def _off_loop(read: Callable[[bytes], T], body: bytes) -> T:
    """Run `read` on a body, in a thread if it's large."""
    return await asyncio.to_thread(read, body) if len(body) >= LARGE_BYTES else read(body)


async def _model_in(body: bytes) -> str | None:
    return await _off_loop(model_in, body)


def _closed(sink: MeteredEvents, ended: Answer | NoAnswer | None) -> e.RelayCalled:
    """The record of a call."""
    if isinstance(ended, NoAnswer):
        return sink.close("failed", ended.failure)
    return sink.close("cancelled" if ended is None else "completed")


async def _translated(
    raw: RawRequest, targets: tuple[Target, ...], options: ServerOptions
) -> tuple[tuple[Target, ...], Translation | None]:
    """Return the targets that can answer, and the translation for those on other wires.

    A request bound to one endpoint and account stays there. One that can't be translated only gets targets on
    its own wire.
    """
    if raw.bound_by:
        if targets[0].wire != raw.wire:
            is_thread = raw.bound_by == "previous_message_id"
            raise thread_unsupported() if is_thread else not_translatable(raw.bound_by)
        return targets[:1], None
    if all(target.wire == raw.wire for target in targets):
        return targets, None
    attached = dict[str, bytes]()
    try:
        request = await translated_with_images(raw, options, attached)
    except Problem:
        if targets[0].wire != raw.wire:
            raise
        return tuple(target for target in targets if target.wire == raw.wire), None
    refused = {target.name: _refused(raw, request, target) for target in targets}
    if refused[targets[0].name]:
        raise not_translatable(refused[targets[0].name])
    usable = tuple(target for target in targets if not refused[target.name])
    fields = await _off_loop(repeated_fields, raw.body) if raw.wire == "responses" else {}
    return usable, Translation(request, attached, AnswerForm(raw.model, raw.includes_usage, fields))


def _refused(raw: RawRequest, request: ModelRequest, target: Target) -> str:
    return "" if target.wire == raw.wire else untranslatable(request, target, wire=raw.wire)
