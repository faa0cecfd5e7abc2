"""Lists and revokes lasting approvals over HTTP."""

from collections.abc import Mapping, Sequence

from starlette.requests import Request
from starlette.responses import Response

from holdfast import events as e
from holdfast.agent.policy import Judge
from holdfast.api.approvals import GrantList, GrantRevoked, GrantShown
from holdfast.policy.grants import describe
from holdfast.runner.session_grants import SessionGrant, session_grants
from holdfast.server.deps import RouteDeps
from holdfast.server.lazy_endpoints import RouteParts
from holdfast.server.problems import Problem, bad_request, session_not_found
from holdfast.server.routing import Endpoint
from holdfast.server.transport.bodies import json_response, whole_number

PAGE_MAX = 200


class GrantRoutes:
    """The routes under /api/approvals/rules."""

    def __init__(self, deps: RouteDeps) -> None:
        self._deps = deps

    async def list(self, request: Request) -> Response:
        """GET /api/approvals/rules."""
        session_id = request.query_params.get("session_id", "")
        wanted = request.query_params.get("sessions", "")
        limit = whole_number(request, "limit", default=50, most=PAGE_MAX)
        if wanted not in {"", "all"}:
            raise bad_request("'sessions' must be all", param="sessions")
        if wanted and not session_id:
            return await self._page(request.query_params.get("cursor", ""), limit)
        data = _everywhere(self._deps.agent.judge)
        if session_id:
            granted = (await self._granted(session_id)).values()
            data += [_of_session(one, session_id) for one in granted if one.scope == "session"]
        return _answer(data)

    async def _page(self, cursor: str, limit: int) -> Response:
        """Some of all rules; those that hold everywhere come first."""
        known = await session_grants(self._deps.store)
        left = [one for one in known if not cursor or one > SessionGrant.at(cursor)]
        data = [] if cursor else _everywhere(self._deps.agent.judge)
        page = left[: max(1, limit - len(data))]
        for one in page:
            granted = await self._standing(one)
            data += [_of_session(granted, one.session_id)] if granted else []
        last = page[-1].cursor if len(left) > len(page) else None
        return _answer(data, next_cursor=last)

    async def _standing(self, one: SessionGrant) -> e.GrantAdded | None:
        """The rule, if its session is still there and has it."""
        found = await self._deps.store.session(one.session_id)
        if found is None or found.purge_at_ms:
            return None
        granted = (await self._deps.inbox.state(one.session_id)).grants.get(one.grant_id)
        return granted if granted is not None and granted.scope == "session" else None

    async def revoke(self, request: Request) -> Response:
        """DELETE /api/approvals/rules/{grant_id}."""
        grant_id: str = request.path_params["grant_id"]
        session_id = request.query_params.get("session_id", "")
        if session_id:
            await self._granted(session_id)
        if not await self._deps.inbox.revoke(grant_id, session_id=session_id):
            raise Problem(404, "No rule has this id", code="rule_not_found", param="grant_id")
        return json_response(GrantRevoked(grant_id=grant_id, deleted=True))

    async def _granted(self, session_id: str) -> Mapping[str, e.GrantAdded]:
        found = await self._deps.store.session(session_id)
        if found is None or found.purge_at_ms:
            raise session_not_found(session_id)
        return (await self._deps.inbox.state(session_id)).grants


def _answer(data: Sequence[GrantShown], *, next_cursor: str | None = None) -> Response:
    return json_response(
        GrantList(data=tuple(data), has_more=next_cursor is not None, next_cursor=next_cursor)
    )


def _everywhere(judge: Judge) -> list[GrantShown]:
    return [
        GrantShown(grant_id=grant_id, scope="always", rule=rule, says=describe(rule))
        for grant_id, rule in judge.standing().items()
    ]


def _of_session(granted: e.GrantAdded, session_id: str) -> GrantShown:
    return GrantShown(
        grant_id=granted.grant_id,
        scope="session",
        session_id=session_id,
        rule=granted.rule,
        says=describe(granted.rule),
        by=granted.by,
        created_at=granted.at_ms / 1000,
    )


def endpoints(parts: RouteParts) -> Mapping[str, Endpoint]:
    """What the endpoints do."""
    grants = GrantRoutes(parts.deps)
    return {"grants.list": grants.list, "grants.revoke": grants.revoke}
