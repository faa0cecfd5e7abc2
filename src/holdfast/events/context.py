"""Events about what a model sees besides the conversation."""

from holdfast.events.bases import Input, RunEvent
from holdfast.values import BlobRef, TrimmedResult


class ContextSet(RunEvent, frozen=True, kw_only=True, tag="context.set"):
    """The system text and the tools of the model calls that follow, in this run and later ones.

    `reason` is `first`, or what invalidated the previous text: `compaction`, `trimming`, `revert`, `model`,
    `instructions` (of the caller), `tools` or `lost`.
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


class ContextCompacted(RunEvent, frozen=True, kw_only=True, tag="context.compacted"):
    """The conversation up to `upto_seq` was summarized for the model. Token counts are estimates.

    `call_id` is the call that wrote the summary. If it's empty and there is a `failure`, Holdfast shortened
    the messages itself. The messages and answers in `pinned` follow the summary word for word.
    """

    upto_seq: int
    summary: str
    tokens_before: int = 0
    tokens_after: int = 0
    call_id: str = ""
    failure: str = ""  # why there is no summary by a model
    pinned: tuple[str, ...] = ()  # ids of messages, and of runs for their answers


class ContextTrimmed(RunEvent, frozen=True, kw_only=True, tag="context.trimmed"):
    """Old tool results were removed from what the model sees, all at once. Token counts are estimates."""

    results: tuple[TrimmedResult, ...]
    tokens_before: int = 0
    tokens_after: int = 0


class ContextCompactionFailed(RunEvent, frozen=True, kw_only=True, tag="context.compaction_failed"):
    """The conversation couldn't be summarized. The run continues with all of it: `tokens`, estimated."""

    failure: str
    call_id: str = ""
    tokens: int = 0


class ContextReverted(Input, frozen=True, kw_only=True, tag="context.reverted"):
    """A person undid the compaction or trimming at `reverted_seq`: the model sees those messages again."""

    reverted_seq: int
    by: str = ""


class MessagePinned(Input, frozen=True, kw_only=True, tag="message.pinned"):
    """A person pinned a message or, by its run, an answer: no later summary replaces it."""

    message_id: str = ""
    answer_of: str = ""  # the run
    by: str = ""


class MessageUnpinned(Input, frozen=True, kw_only=True, tag="message.unpinned"):
    """The message or answer was unpinned: the next summary can replace it."""

    message_id: str = ""
    answer_of: str = ""
    by: str = ""


class ContextRead(RunEvent, frozen=True, kw_only=True, tag="context.read"):
    """The model saw outside content besides the conversation: files or tool descriptions."""

    sources: tuple[str, ...]
