"""What people have allowed beyond one action, over HTTP: shown, and taken back."""

from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from holdfast import events as e
from holdfast.policy.approvals import describe
from holdfast.server.bodies import json_answer
from holdfast.server.means import ServerMeans
from holdfast.server.problems import Problem, session_not_found
from holdfast.values import GrantRule


class GrantRoutes:
    """What the routes under /api/approvals/rules do."""

    def __init__(self, means: ServerMeans) -> None:
        self._means = means

    async def list(self, request: Request) -> Response:
        """GET /api/approvals/rules."""
        session_id = request.query_params.get("session_id", "")
        data = [_always(grant_id, rule) for grant_id, rule in self._means.agent.judge.standing().items()]
        if session_id:
            granted = (await self._granted(session_id)).values()
            data += [_of_session(one, session_id) for one in granted if one.scope == "session"]
        return json_answer({"object": "list", "data": data})

    async def revoke(self, request: Request) -> Response:
        """DELETE /api/approvals/rules/{grant_id}."""
        grant_id: str = request.path_params["grant_id"]
        session_id = request.query_params.get("session_id", "")
        if session_id:
            await self._granted(session_id)
        if not await self._means.inbox.revoke(grant_id, session_id=session_id):
            raise Problem(404, "There is no such rule", code="rule_not_found", param="grant_id")
        return json_answer({"grant_id": grant_id, "deleted": True})

    async def _granted(self, session_id: str) -> Mapping[str, e.GrantAdded]:
        found = await self._means.store.session(session_id)
        if found is None or found.purge_at_ms:
            raise session_not_found(session_id)
        return (await self._means.inbox.state(session_id)).grants


def _always(grant_id: str, rule: GrantRule) -> dict[str, Any]:
    return {"grant_id": grant_id, "scope": "always"} | _about(rule)


def _of_session(granted: e.GrantAdded, session_id: str) -> dict[str, Any]:
    answer: dict[str, Any] = {"grant_id": granted.grant_id, "scope": "session", "session_id": session_id}
    return answer | _about(granted.rule) | {"by": granted.by, "created_at": granted.at_ms / 1000}


def _about(rule: GrantRule) -> dict[str, Any]:
    return {"rule": msgspec.to_builtins(rule), "says": describe(rule)}
