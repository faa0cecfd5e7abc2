"""Channels over HTTP: list them, grant access, send messages, and read the log.

The log of a channel as people read it: one line for each event, without what people wrote.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from holdfast import events as e
from holdfast.api.server import ChannelHealth
from holdfast.codec import type_of
from holdfast.events import Event, Input
from holdfast.features.channels.deps import ConfiguredChannel
from holdfast.features.channels.events import (
    ChannelCodeCreated,
    ChannelConnected,
    ChannelFailed,
    ChannelMessageClosed,
    ChannelUpdateLogged,
    ChannelUserAllowed,
    ChannelUserRevoked,
)
from holdfast.features.channels.http.bodies import (
    AllowRequest,
    ChannelHistory,
    ChannelList,
    ChannelLogEntry,
    ChannelShown,
    ChannelTestIntended,
    ChannelTestRequest,
    ChannelUserChanged,
    ChannelUserShown,
    PairingCode,
    PairRequest,
)
from holdfast.features.channels.http.folds import ChannelFolds
from holdfast.features.channels.http.places import WEBHOOKS, configured_in, known_log
from holdfast.features.channels.http.sent_messages import SentMessageRoutes
from holdfast.features.channels.http.updates import ChannelDeliveryRoutes
from holdfast.features.channels.http.webhook_endpoints import WebhookEndpoints
from holdfast.features.channels.kinds import ChannelKind, channel_kind
from holdfast.features.channels.state import BY_CODE, ChannelState, code_digest
from holdfast.folds.outbox import Outbox
from holdfast.interfaces.ids import WEBHOOKS_LOG, channel_log_id, new_message_id, new_pairing_code
from holdfast.interfaces.journal import IfSessionKnown, Record
from holdfast.safe_text import safe_line, sentences
from holdfast.server.access.auth import OPEN
from holdfast.server.access.caller import KEY_NAME
from holdfast.server.deps import RouteDeps
from holdfast.server.lazy_endpoints import RouteParts
from holdfast.server.problems import bad_request
from holdfast.server.transport.bodies import decoded, json_response
from holdfast.values import CHANNEL

WHAT_CHARS_MAX = 200


def log_entry(record: Record, outbox: Outbox) -> ChannelLogEntry:
    """One event of the log."""
    event = record.event
    key = event.key if isinstance(event, e.DeliveryIntended) else getattr(event, "delivery", "")
    delivery = outbox.deliveries.get(key)
    return ChannelLogEntry(
        seq=record.seq,
        at=event.at_ms / 1000,
        type=type_of(event),
        chat=getattr(event, "chat", "") or (delivery.intended.chat if delivery is not None else ""),
        user=getattr(event, "user", ""),
        what=safe_line(_of_delivery(event) if key else _of_channel(event), WHAT_CHARS_MAX),
        delivery=key,
    )


def _of_delivery(event: Event) -> str:
    match event:
        case e.DeliveryIntended(parts=parts) if parts > 1:
            return f"part {event.part + 1} of {parts}"
        case e.DeliveryConfirmed(platform_id=platform_id) if platform_id:
            found = ", found there" if event.found else ""
            return f"message {platform_id}{found}"
        case e.DeliveryAttempted():
            mark = ", marked as a possible repeat" if event.marked else ""
            mark += ", because it wasn't delivered" if event.absent else ""
            return f"attempt {event.nth}{mark}"
        case e.DeliveryPostponed():
            return f"{event.why}; will be resent"
        case e.DeliveryRejected():
            return event.why
        case e.DeliveryUnknown():
            return f"{event.why}; " + ("abandoned" if event.given_up else "will be resent, marked")
        case _:
            return ""


def _of_channel(event: Event) -> str:
    match event:
        case ChannelUpdateLogged():
            return f"{event.became}: {event.why}" if event.why else event.became
        case ChannelFailed():
            return sentences(event.why, event.hint)
        case ChannelConnected():
            return f"{event.account}; possibly lost: {event.missed}" if event.missed else event.account
        case ChannelUserAllowed():
            by = "with a code" if event.by == BY_CODE else f"by {event.by}" if event.by else ""
            return f"{event.name} as {event.role} {by}".strip()
        case ChannelUserRevoked(by=by) if by:
            return f"by {by}"
        case ChannelMessageClosed():
            return event.why
        case _:
            return ""


CODE_S = 600
HISTORY_MAX = 200
PLACES_MAX = 20
UNKNOWN = ConfiguredChannel("")  # a channel that only its log knows
NOBODY = "No server is running this channel"
START = "Start `holdfast serve`."
TEST = "This is a test from `holdfast channels test`. It works."


async def health(deps: RouteDeps) -> Mapping[str, Any]:
    """Return the channels for /health/detailed."""
    names = ChannelHealth.__struct_fields__
    shown = await channels_shown(deps) if configured_in(deps) else []
    return {"channels": tuple(ChannelHealth(**{name: getattr(one, name) for name in names}) for one in shown)}


async def channels_shown(deps: RouteDeps) -> list[ChannelShown]:
    """All channels as they are now, by name."""
    store, configured = deps.store, configured_in(deps)
    names = dict.fromkeys(configured) | dict.fromkeys(row.title for row in await store.logs(CHANNEL))
    return [await _shown(deps, name, configured.get(name, UNKNOWN)) for name in sorted(names)]


async def _shown(deps: RouteDeps, name: str, configured: ConfiguredChannel) -> ChannelShown:
    log_id = channel_log_id(name)
    kind = WEBHOOKS if log_id == WEBHOOKS_LOG else configured.kind
    state = await deps.singleton(ChannelFolds).state(deps.store, log_id)
    place = await deps.store.place(log_id)
    outcomes = [one.state for one in state.outbox.deliveries.values()]
    is_here = bool(place.owner) or deps.singleton(WebhookEndpoints).holds(log_id)
    is_off = bool(configured.kind) and not is_here
    problem, hint = (NOBODY, START) if is_off else (state.trouble, state.hint)
    return ChannelShown(
        name=name,
        kind=kind,
        state="off" if is_off else _word(state, kind),
        since=0.0 if is_off else state.since_ms / 1000,
        account=state.account,
        problem=problem,
        hint=hint,
        node=place.owner,
        users=tuple(_people(state, configured)),
        chats=len(state.sessions),
        home=state.home,
        awaited=len(state.awaited),
        undelivered=sum(1 for _ in state.outbox.open()),
        given_up=outcomes.count("given_up"),
        rejected=outcomes.count("rejected"),
    )


def _people(state: ChannelState, configured: ConfiguredChannel) -> Iterator[ChannelUserShown]:
    """Yield the people with access, their roles, and how they got them."""

    def role(user: str, own: str) -> str:
        if configured.approvers:
            return "approver" if user in configured.approvers else "user"
        return own

    for one in state.users.values():
        yield ChannelUserShown(
            user=one.user,
            name=one.name,
            role=role(one.user, one.role),
            since=one.since_ms / 1000,
            how="code" if one.by == BY_CODE else "allowed",
            by="" if one.by in {BY_CODE, OPEN} else one.by,
        )
    for user in sorted(configured.allow - state.users.keys() - state.revoked):
        yield ChannelUserShown(user=user, name="", role=role(user, "user"), since=0.0, how="settings")


def _word(state: ChannelState, kind: str) -> str:
    if kind == WEBHOOKS:
        return "connected"  # there is no connection that could fail as a whole
    if not kind:
        return "not_configured"
    if state.trouble:
        return "failed"
    return "connected" if state.is_connected else "starting"


class ChannelRoutes:
    """The routes under /api/channels."""

    def __init__(self, parts: RouteParts) -> None:
        self._deps = parts.deps
        sent = SentMessageRoutes(parts.deps)
        self.send, self.message = sent.send, sent.message
        self.deliver = ChannelDeliveryRoutes(parts.deps, configured_in(parts.deps)).deliver

    async def list(self, request: Request) -> Response:
        """GET /api/channels."""
        del request
        return json_response(ChannelList(data=tuple(await channels_shown(self._deps))))

    async def pair(self, request: Request) -> Response:
        """POST /api/channels/{name}/pair."""
        deps = self._deps
        await decoded(request, deps.limits, PairRequest)
        log_id, now_ms, code = (
            await self._log_id(request),
            deps.clock.now_ms(),
            new_pairing_code(),
        )
        made = ChannelCodeCreated(
            at_ms=now_ms,
            digest=code_digest(log_id, code),
            expires_at_ms=now_ms + CODE_S * 1000,
            by=request.scope[KEY_NAME],
        )
        await self._append(log_id, made)
        return json_response(
            PairingCode(code=code, expires_in_s=CODE_S), 201, headers={"Cache-Control": "no-store"}
        )

    async def allow(self, request: Request) -> Response:
        """POST /api/channels/{name}/users."""
        wanted = await decoded(request, self._deps.limits, AllowRequest)
        user = wanted.user.strip()
        configured = configured_in(self._deps).get(request.path_params["name"])
        log_id = await self._log_id(request)
        kind = channel_kind(configured.kind) if configured else ChannelKind()
        if not kind.is_user_id(user):
            raise bad_request("'user' must be a user ID of the platform", param="user")
        allowed = ChannelUserAllowed(
            at_ms=self._deps.clock.now_ms(), user=user, role=wanted.role, by=request.scope[KEY_NAME]
        )
        await self._append(log_id, allowed)
        return json_response(ChannelUserChanged(channel=request.path_params["name"], user=user, allowed=True))

    async def revoke(self, request: Request) -> Response:
        """DELETE /api/channels/{name}/users/{user}."""
        user: str = request.path_params["user"]
        revoked = ChannelUserRevoked(at_ms=self._deps.clock.now_ms(), user=user, by=request.scope[KEY_NAME])
        await self._append(await self._log_id(request), revoked)
        return json_response(
            ChannelUserChanged(channel=request.path_params["name"], user=user, allowed=False)
        )

    async def test(self, request: Request) -> Response:
        """POST /api/channels/{name}/test."""
        wanted = await decoded(request, self._deps.limits, ChannelTestRequest)
        log_id = await self._log_id(request)
        intended = e.DeliveryIntended(
            at_ms=self._deps.clock.now_ms(),
            chat=wanted.chat.strip(),
            message=f"test.{new_message_id()}",
            body=TEST,
        )
        await self._append(log_id, intended)
        name: str = request.path_params["name"]
        return json_response(
            ChannelTestIntended(channel=name, chat=intended.chat, delivery=intended.key), 202
        )

    async def log(self, request: Request) -> Response:
        """GET /api/channels/{name}/log."""
        store, log_id = self._deps.store, await self._log_id(request)
        after = max(0, await store.last_seq(log_id) - HISTORY_MAX)
        records = await store.read(log_id, after=after, limit=HISTORY_MAX)
        outbox = (await self._deps.singleton(ChannelFolds).state(store, log_id)).outbox
        return json_response(ChannelHistory(data=tuple(log_entry(record, outbox) for record in records)))

    async def _log_id(self, request: Request) -> str:
        """The log of the channel that the request names; raises a Problem."""
        return await known_log(self._deps, request.path_params["name"])

    async def _append(self, log_id: str, event: Input) -> None:
        await self._deps.store.append(log_id, [event], when=[IfSessionKnown()])
