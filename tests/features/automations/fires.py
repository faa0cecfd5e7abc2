"""The fires of a trigger, as its history shows them."""

from typing import Any

from serving import Served


async def until_ended(server: Served, trigger_id: str, *, fires: int = 1) -> list[dict[str, Any]]:
    """The trigger's fires, once so many have ended."""
    while True:
        _, history = await server.get(f"/api/triggers/{trigger_id}/history")
        ended = [fire for fire in history["fires"] if fire["state"] == "ended"]
        if len(ended) >= fires:
            return ended
