"""A server that one key opens, and further keys with scopes."""

from typing import Any

from holdfast.api.operation import SCOPES
from holdfast.server.options import ApiKey, ServerOptions
from server.toolbox import Counted
from serving import AsksAbout, Served, Setting

SECRET = "sk-secret-of-the-owner"  # noqa: S105  # the key of a server that lives for a test
OWNER = {"Authorization": f"Bearer {SECRET}"}


def locked() -> Setting:
    """A server that asks before it touches anything."""
    return Setting(
        options=ServerOptions(keys=(ApiKey("owner", SECRET),)),
        tools=(Counted(),),
        judge=AsksAbout(frozenset({"touch"})),
    )


async def made(server: Served, *scopes: str, name: str = "") -> dict[str, str]:
    """The header of a new key with these scopes."""
    body: dict[str, Any] = {"name": name or "-".join(scopes), "scopes": list(scopes)}
    status, answer = await server.post("/api/keys", body, **OWNER)
    assert (status, answer["scopes"]) == (201, [one for one in SCOPES if one in scopes])
    return {"Authorization": f"Bearer {answer['key']}"}
