"""Where tools keep what is too large for an event: without secrets, like the events themselves."""

import asyncio
from dataclasses import dataclass

from holdfast.interfaces.journal import Blobs
from holdfast.redaction import Redactor


@dataclass(frozen=True, slots=True)
class CleanBlobs:
    """Blobs of which no new one holds a secret; see interfaces.Blobs."""

    inner: Blobs
    secrets: Redactor

    async def put_blob(self, data: bytes) -> str:
        """See Blobs.put_blob."""
        # Off the loop: there may be many megabytes to look through.
        return await self.inner.put_blob(await asyncio.to_thread(self.secrets.redact_bytes, data))

    async def keep_blob(self, name: str) -> bool:
        """See Blobs.keep_blob."""
        return await self.inner.keep_blob(name)

    async def blob(self, name: str) -> bytes | None:
        """See Blobs.blob."""
        return await self.inner.blob(name)
