"""Response bodies for the quarantine of unapproved changes."""

from typing import Annotated

import msgspec

from holdfast.api.body import ALWAYS_TRUE, ResponseBody


class QuarantineEntry(ResponseBody, frozen=True, kw_only=True):
    """A file or folder in quarantine. Bytes in paths that aren't UTF-8 are shown as numbers."""

    id: str
    path: Annotated[str, msgspec.Meta(description="Its original path, used to restore it.")]
    kept: Annotated[str, msgspec.Meta(description="Its path in quarantine.")]
    taken_at: Annotated[float, msgspec.Meta(description="When it was quarantined, in seconds of Unix time.")]


class QuarantineList(ResponseBody, frozen=True, tag_field="object", tag="list"):
    """Quarantined files, newest first."""

    data: tuple[QuarantineEntry, ...]
    has_more: Annotated[bool, msgspec.Meta(description="Whether the list is incomplete.")] = False


class QuarantineRestored(ResponseBody, frozen=True):
    """The file is restored. Any file it replaced is now in quarantine, under the same id."""

    id: str
    path: str
    restored: Annotated[bool, ALWAYS_TRUE]


class QuarantineDeleted(ResponseBody, frozen=True):
    """The file is permanently deleted."""

    id: str
    deleted: Annotated[bool, ALWAYS_TRUE]
