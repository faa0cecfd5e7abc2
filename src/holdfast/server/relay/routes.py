"""The routes that both agents and relayed models serve: the model's name decides which of them answers."""

import asyncio
import codecs
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from typing import Any, TypeAlias, TypeVar

from msgspec import Struct
from starlette.requests import Request

from holdfast import events as e
from holdfast.interfaces.ids import new_run_id
from holdfast.interfaces.model import Answer, NoAnswer
from holdfast.messages import ModelRequest
from holdfast.model_events import TokensUsed
from holdfast.models.call import ModelCalls
from holdfast.server.access.budgets import CallReservation
from holdfast.server.access.caller import KEY_NAME, check_scope
from holdfast.server.access.middleware import too_large
from holdfast.server.deps import RouteDeps
from holdfast.server.openai.models import ModelNames
from holdfast.server.options import ServerOptions
from holdfast.server.problems import Problem
from holdfast.server.relay.call_log import CallLog, LoggedReceiver, LoggedSink
from holdfast.server.relay.calls import DetachedCalls, RelayedCall, names_to_join, names_to_keep
from holdfast.server.relay.encodings import read_decoded
from holdfast.server.relay.headers import HeadersUp
from holdfast.server.relay.output import RelayOutput
from holdfast.server.relay.plain_routes import (
    COMPACTING,
    INPUT_TOKENS,
    PLAIN_PATHS,
    not_at_target,
    not_for_agents,
    plain_surface,
)
from holdfast.server.relay.raw_request import RawRequest, check_one_model, model_in, raw_request
from holdfast.server.relay.records import CallRecords
from holdfast.server.relay.requests import RelayedRequest, SentAlong, Translation
from holdfast.server.relay.response import RelayResponse, RelayTimes
from holdfast.server.relay.sink import AskedBy, RelaySink
from holdfast.server.relay.surfaces import COUNTING, SURFACES, Surface
from holdfast.server.relay.translation.as_responses import repeated_fields
from holdfast.server.relay.translation.choices import untranslatable
from holdfast.server.relay.translation.conversations import not_translatable, thread_unsupported
from holdfast.server.relay.translation.receiver import AnswerForm
from holdfast.server.relay.translation.requests import translated_with_images
from holdfast.server.transport.bodies import LARGE_BYTES, json_response
from holdfast.targets import Target, Wire

T = TypeVar("T")
OUTPUT_TOKENS = 1024  # what a call is expected to make if its request sets no limit


class KeptCalls(Struct, frozen=True):
    """State that outlives requests: records being written, and calls whose client disconnected."""

    records: CallRecords
    detached: DetachedCalls

    async def close(self) -> None:
        """End the calls, then write what is left."""
        await self.detached.close()
        await self.records.close()


AgentEndpoint: TypeAlias = Callable[[Request, bytes], Awaitable[Any]]


class AgentEndpoints(Struct, frozen=True):
    """The handlers for agent names."""

    chat: AgentEndpoint
    responses: AgentEndpoint
    input_tokens: AgentEndpoint
    compact: AgentEndpoint


class RelayRoutes:
    """POST /v1/chat/completions, /v1/responses and /v1/messages."""

    def __init__(self, deps: RouteDeps, kept: KeptCalls, agents: AgentEndpoints) -> None:
        self._deps = deps
        self._records = kept.records
        self._detached = kept.detached
        self._options = deps.options.relay
        self._names = ModelNames(deps.options)
        self._agents = agents
        self._headers_up = HeadersUp(self._options.headers)
        self._via = f"holdfast {self._options.server_id}"
        self._times = RelayTimes(hold_s=self._options.hold_s, keep_alive_s=self._options.keep_alive_s)

    async def chat(self, request: Request) -> Any:
        """POST /v1/chat/completions."""
        return await self._serve(request, "chat", self._agents.chat)

    async def responses(self, request: Request) -> Any:
        """POST /v1/responses."""
        return await self._serve(request, "responses", self._agents.responses)

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
        raw = raw_request(body, "anthropic")
        if not targets:
            raise self._names.not_found(raw.model)
        asked = await translated_with_images(raw, self._deps.options, {})
        return json_response({"input_tokens": asked.input_tokens}, headers={"X-Holdfast-Estimate": "true"})

    async def _model_targets(self, request: Request, body: bytes) -> tuple[Target, ...]:
        """The targets for a route that relays every name, except an agent's, which it can't run."""
        name = await _model_in(body) or ""
        if self._names.is_agent(name):
            raise not_for_agents(name, request.scope["path"])
        return self._names.relayed(name) or self._names.default_of("anthropic")

    async def input_tokens(self, request: Request) -> Any:
        """POST /v1/responses/input_tokens: the provider's count, or our estimate."""
        return await self._document(request, INPUT_TOKENS, self._agents.input_tokens)

    async def compact(self, request: Request) -> Any:
        """POST /v1/responses/compact."""
        return await self._document(request, COMPACTING, self._agents.compact)

    async def _document(self, request: Request, surface: Surface, agent: AgentEndpoint) -> Any:
        body = await self._body(request)
        name = await _model_in(body)
        targets = self._names.relayed_for(name, request)
        if not targets:
            return await self._by_agent(request, body, name=name, agent=agent)
        check_scope(request.scope, "relay")
        if targets[0].wire == surface.wire:
            return await self._relay(request, surface, body, targets[:1])
        if surface is COMPACTING:
            raise not_at_target(surface.path, targets[0])
        asked = await translated_with_images(raw_request(body, surface.wire), self._deps.options, {})
        counted = {"object": "response.input_tokens", "input_tokens": asked.input_tokens}
        return json_response(counted, headers={"X-Holdfast-Estimate": "true"})

    async def plain(self, request: Request) -> Any:
        """POST /v1/completions and /v1/embeddings, which only relayed models have."""
        check_scope(request.scope, "relay")
        body = await self._body(request)
        name = await _model_in(body) or ""
        targets = self._names.relayed(name)
        if self._names.is_agent(name):
            raise not_for_agents(name, request.scope["path"])
        surface = plain_surface(PLAIN_PATHS[request.scope["path"]], targets)
        usable = tuple(target for target in targets if target.wire == surface.wire)
        return await self._relay(request, surface, body, usable)

    async def _serve(self, request: Request, wire: Wire, agent: AgentEndpoint) -> Any:
        body = await self._body(request)
        name = await _model_in(body)
        targets = self._names.relayed_for(name, request)
        if targets:
            check_scope(request.scope, "relay")
            return await self._relay(request, SURFACES[wire], body, targets)
        return await self._by_agent(request, body, name=name, agent=agent)

    async def _by_agent(
        self, request: Request, body: bytes, *, name: str | None, agent: AgentEndpoint
    ) -> Any:
        await _off_loop(check_one_model, body)
        self._names.insist_on_agent(name, request)
        try:
            check_scope(request.scope, "chat")
        except Problem:
            # A key that only relays can't have meant the agent: its body is broken, or names no model.
            await _off_loop(partial(raw_request, wire="chat"), body)
            raise
        limits = self._deps.limits
        if len(body) > limits.body_bytes_max:
            raise too_large(limits.body_bytes_max)
        return await agent(request, body)

    async def _body(self, request: Request) -> bytes:
        self._check_loop(request)
        most = max(self._options.body_bytes_max, self._deps.limits.body_bytes_max)
        body = await read_decoded(request, self._deps.limits, bytes_max=most)
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
        calls = self._options.calls
        if calls is None or not targets:
            raise self._names.not_found(raw.model)
        key: str = request.scope[KEY_NAME]
        may_join = surface.is_answer and self._options.keep == "all"
        if may_join and (under_way := self._to_join(request, body)) is not None:
            return self._response(under_way)
        deps, options = self._deps, self._options
        usable, translation = await _translated(raw, targets, deps.options)
        output = RelayOutput(surface, deps.agent.secrets)
        along = SentAlong(
            self._headers_up.of(request.scope["headers"]),
            request.scope["query_string"].decode(errors="replace"),
            ", ".join([*request.headers.getlist("via"), self._via]),
        )
        asked = RelayedRequest(
            raw,
            output,
            along=along,
            wait_ms_max=int(1000 * options.wait_s),
            translation=translation,
        )
        caller, by = ModelCalls(calls, usable), AskedBy(key, raw.model)
        if options.keep != "all" or not surface.is_answer:
            return self._response(RelayedCall(asked, output, make=partial(self._made, caller, asked, by)))
        names = names_to_keep(request, body)
        if names:
            output.keep_all()
        make = partial(self._logged, caller, asked, raw, by)
        return self._response(RelayedCall(asked, output, make=make, names=names))

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

    async def _made(self, caller: ModelCalls, asked: RelayedRequest, by: AskedBy) -> Answer | NoAnswer:
        """Make the call, and record it however it ends; its response ends after that."""
        deps = self._deps
        sink = RelaySink(new_run_id(), deps.clock, output=asked.output, metrics=deps.metrics, by=by)
        ended: Answer | NoAnswer | None = None
        async with self._spending(caller, asked, by):
            try:
                ended = await caller.make(asked, sink, turn=1)
                return ended
            finally:
                record = _closed(sink, ended)
                if self._options.keep != "none" and not asked.output.surface.is_free:
                    await self._records.add(record)

    def _spending(
        self, caller: ModelCalls, asked: RelayedRequest, by: AskedBy
    ) -> AbstractAsyncContextManager[None]:
        """The call in its key's budget, from before it is made until it is on record."""
        if asked.output.surface.is_free or not self._deps.budgets.has_limits(by.key):
            return nullcontext()
        output_tokens = asked.answers * (asked.output_tokens_max or OUTPUT_TOKENS)
        most = TokensUsed(input_tokens=asked.input_tokens, output_tokens=output_tokens)
        usd = caller.deps.prices.cost_usd(caller.targets[0], most) or 0.0
        return self._deps.budgets.spending(
            by.key, CallReservation(most.input_tokens + most.output_tokens, usd)
        )

    async def _logged(
        self, caller: ModelCalls, asked: RelayedRequest, raw: RawRequest, by: AskedBy
    ) -> Answer | NoAnswer:
        """The same with a log of everything."""
        deps = self._deps
        sink = LoggedSink(new_run_id(), deps.clock, output=asked.output, metrics=deps.metrics, by=by)
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


def _closed(sink: RelaySink, ended: Answer | NoAnswer | None) -> e.RelayCalled:
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
