"""The client's calls for triggers."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from holdfast.client.client import Client, in_path
from holdfast.client.exchange import ClientRequest
from holdfast.features.automations.bodies import (
    HookSecret,
    NextInstants,
    TriggerDeleted,
    TriggerHistory,
    TriggerList,
    TriggerMade,
    TriggerShown,
)


class TriggerCalls:
    """Triggers of a server."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def list(self) -> Sequence[TriggerShown]:
        """All triggers, oldest first."""
        return (await self._client.get("/api/triggers", TriggerList)).data

    async def add(self, fields: Mapping[str, Any]) -> TriggerMade:
        """Create a trigger. Only this response contains the webhook's secret."""
        return await self._client.post("/api/triggers", dict(fields), TriggerMade)

    async def next_instants(self, fields: Mapping[str, Any]) -> NextInstants:
        """The next five instants of a trigger that isn't saved."""
        return await self._client.post("/api/triggers/preview", dict(fields), NextInstants)

    async def edit(self, trigger_id: str, fields: Mapping[str, Any]) -> TriggerShown:
        """Change a trigger, from its next instant on."""
        path = f"/api/triggers/{in_path(trigger_id)}"
        return await self._client.send(ClientRequest("PATCH", path, dict(fields)), TriggerShown)

    async def change(
        self, trigger_id: str, change: Literal["pause", "resume", "run"], *, once: str = ""
    ) -> TriggerShown:
        """Pause, resume or run a trigger."""
        return await self._client.post(
            f"/api/triggers/{in_path(trigger_id)}/{change}", None, TriggerShown, once=once
        )

    async def answer_missed(self, trigger_id: str, *, run: bool) -> TriggerShown:
        """Say whether to make up for missed instants."""
        return await self._client.post(
            f"/api/triggers/{in_path(trigger_id)}/missed", {"run": run}, TriggerShown
        )

    async def new_hook_secret(self, trigger_id: str) -> HookSecret:
        """Replace the secret of a webhook."""
        return await self._client.post(f"/api/triggers/{in_path(trigger_id)}/secret", {}, HookSecret)

    async def history(self, trigger_id: str) -> TriggerHistory:
        """List a trigger's history, newest first."""
        return await self._client.get(f"/api/triggers/{in_path(trigger_id)}/history", TriggerHistory)

    async def remove(self, trigger_id: str) -> None:
        """Delete a trigger."""
        await self._client.send(
            ClientRequest("DELETE", f"/api/triggers/{in_path(trigger_id)}"), TriggerDeleted
        )
