"""The bodies of responses about the quarantine: what commands changed that nobody approved."""

from typing import Annotated

import msgspec

from holdfast.api.body import ALWAYS_TRUE, ResponseBody


class QuarantineEntry(ResponseBody, frozen=True, kw_only=True):
    """A file or folder in quarantine; in a path, a byte that isn't UTF-8 is shown as its number."""

    id: str
    path: Annotated[str, msgspec.Meta(description="Where it was, and where restoring puts it.")]
    kept: Annotated[str, msgspec.Meta(description="Where it is now.")]
    taken_at: Annotated[float, msgspec.Meta(description="When it was taken, in seconds of Unix time.")]


class QuarantineList(ResponseBody, frozen=True, tag_field="object", tag="list"):
    """What is in quarantine, newest first."""

    data: tuple[QuarantineEntry, ...]
    has_more: Annotated[bool, msgspec.Meta(description="Whether there is more than is listed.")] = False


class QuarantineRestored(ResponseBody, frozen=True):
    """It is back in its place; what was there is in quarantine now, under the same id."""

    id: str
    path: str
    restored: Annotated[bool, ALWAYS_TRUE]


class QuarantineDeleted(ResponseBody, frozen=True):
    """It is gone for good."""

    id: str
    deleted: Annotated[bool, ALWAYS_TRUE]
