"""Events about what a model sees besides the conversation."""

from holdfast.events.bases import RunEvent
from holdfast.values import BlobRef


class ContextSet(RunEvent, frozen=True, kw_only=True, tag="context.set"):
    """The system text and the tools of the model calls that follow, in this run and later ones.

    `reason` is `first`, or what invalidated the previous text: `compaction`, `model`, `instructions` (of the
    caller), `tools` or `lost`.
    """

    reason: str
    instructions: str = ""
    blob: BlobRef = ""  # the instructions, if they are large
    parts: dict[str, str] = {}  # noqa: RUF012  # the digest of each part of the instructions, by name
    tools: tuple[str, ...] = ()  # the names of the declared tools
    tools_digest: str = ""  # of their declarations
    model: str = ""  # as the run's settings name it


class ContextNoted(RunEvent, frozen=True, kw_only=True, tag="context.noted"):
    """A note to the model, in place of a change of the system text or of earlier messages."""

    text: str
    parts: dict[str, str] = {}  # noqa: RUF012  # new digests of the parts that the note replaces; empty: removed
    message_id: str = ""  # the message that the note precedes; empty: it follows everything before it
