"""The secrets of webhooks: notes beside the logs, which no log, export or response contains."""

from base64 import b64encode
from os import urandom

from holdfast.decisions.hook_signatures import HookSignature
from holdfast.interfaces.journal import Notes


def new_secret(kind: HookSignature) -> str:
    """A secret, in the form that the senders of this kind expect."""
    if kind == "standard":
        return "whsec_" + b64encode(urandom(32)).decode()
    return f"hfhook_{urandom(24).hex()}"


async def put_secret(notes: Notes, trigger_id: str, secret: str) -> None:
    """Store it; it goes when the trigger is purged."""
    await notes.put_note(_key(trigger_id), secret.encode())


async def secret_of(notes: Notes, trigger_id: str) -> str | None:
    """The secret of this hook, if there is one."""
    raw = await notes.note(_key(trigger_id))
    return None if raw is None else raw.decode()


def _key(trigger_id: str) -> str:
    return f"session/{trigger_id}/hook-secret"
