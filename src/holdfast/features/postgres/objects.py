"""Large blobs as objects of an S3-compatible service: puts, reads and deletes them, each within a deadline.

What an object is called and which blob it holds is in the database; see blobs.py. Needs the extra
`holdfast[s3]`.
"""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from holdfast.config.server import BlobStoreSettings
from holdfast.interfaces.journal import JournalError, StoreFailed, StoreUnreachable

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig, S3Config, S3Credential, S3Store

INSTALL = "pip install 'holdfast[s3]'"
AT_ONCE = 8  # requests; each holds a blob in memory
PROBE = b"holdfast writes, reads and deletes this to see whether it may"

_log = logging.getLogger(__name__)
_Answer = TypeVar("_Answer")
_CODE = re.compile(r"<Code>([A-Za-z]{1,60})</Code>")
_STATUS = re.compile(r"status code: (\d{3})")


class ObjectPatience(Struct, frozen=True, kw_only=True):
    """How long a request may take, with all attempts; a large object may take longer."""

    answer_s: float = 15.0
    bytes_per_s: float = 500_000.0
    connect_s: float = 3.0
    retries_max: int = 4
    retry_first_s: float = 0.1
    retry_last_s: float = 1.0

    def deadline_s(self, size: int) -> float:
        """The longest that a request with so many bytes may take."""
        return self.answer_s + size / self.bytes_per_s


class BlobBucket:
    """A bucket. Making one reads files, so don't do it on the event loop's thread.

    Every method raises StoreUnreachable if the service doesn't answer in time or refuses. `trouble` is the
    last such error, until a request succeeds.
    """

    def __init__(self, bucket: BlobStoreSettings, *, patience: ObjectPatience | None = None) -> None:
        from obstore.exceptions import BaseError

        self._error_type = BaseError
        self._patience = patience or ObjectPatience()
        self.place = bucket.place
        self.trouble: JournalError | None = None
        self._store = _client(bucket, self._patience)
        self._free = asyncio.Semaphore(AT_ONCE)

    async def put(self, key: str, data: bytes) -> None:
        """Store an object; it is there when this returns."""
        # In one request: an upload in parts that is interrupted would leave parts behind.
        await self._asked(lambda: self._store.put_async(key, data, use_multipart=False), size=len(data))

    async def get(self, key: str, *, size: int) -> bytes | None:
        """The bytes of an object; None if there is none. Of one with another size, nothing is read."""

        async def get() -> bytes:
            found = await self._store.get_async(key)
            return bytes(await found.bytes_async()) if found.meta["size"] == size else b""

        return await self._unless_missing(get, size=size)

    async def holds(self, key: str, *, size: int) -> bool:
        """Whether there is an object of this size."""
        found = await self._unless_missing(lambda: self._store.head_async(key))
        return found is not None and found["size"] == size

    async def delete(self, keys: Sequence[str]) -> None:
        """Delete objects; those that aren't there count as deleted."""
        deleting = [self._unless_missing(partial(self._store.delete_async, key)) for key in keys]
        for error in await asyncio.gather(*deleting, return_exceptions=True):
            if isinstance(error, BaseException):
                raise error

    async def probe(self, key: str) -> None:
        """Write, read and delete an object; raises StoreUnreachable if any of it fails."""
        await self.put(key, PROBE)
        if await self.get(key, size=len(PROBE)) != PROBE:
            raise self._unreachable("it doesn't return what was written to it")
        await self.delete([key])

    async def _unless_missing(
        self, ask: Callable[[], Awaitable[_Answer]], *, size: int = 0
    ) -> _Answer | None:
        """The answer; None if the object isn't there."""
        try:
            return await self._asked(ask, size=size)
        except FileNotFoundError:
            return None

    async def _asked(self, ask: Callable[[], Awaitable[_Answer]], *, size: int = 0) -> _Answer:
        deadline_s = self._patience.deadline_s(size)
        try:
            async with asyncio.timeout(deadline_s), self._free:
                answer = await ask()
        except FileNotFoundError as error:
            if "NoSuchBucket" in str(error):
                raise self._unreachable("there is no such bucket") from error
            self._works()
            raise
        except TimeoutError as error:
            raise self._unreachable(f"no answer within {deadline_s:g} s") from error
        except (self._error_type, OSError) as error:
            raise self._unreachable(_reason(error)) from error
        self._works()
        return answer

    def _works(self) -> None:
        if self.trouble is not None:
            _log.info("the object store works again: %s", self.place)
        self.trouble = None

    def _unreachable(self, why: str) -> StoreUnreachable:
        text = f"the object store can't be used: {self.place}: {why}"
        if self.trouble is None:
            _log.warning("%s; until it works again, large blobs are stored in the database", text)
        self.trouble = StoreUnreachable(text)
        return StoreUnreachable(text)


def _reason(error: Exception) -> str:
    """Describe the service's error, or the failed request, in one line."""
    text = str(error)
    if (status := _STATUS.search(text)) is not None:
        code = _CODE.search(text)
        return f"{status[1]} {code[1]}" if code is not None else status[1]
    # The library adds what it was doing and, after an empty line, its innards.
    return text.partition("\n")[0].rpartition(" - ")[2].strip()


def open_objects(bucket: BlobStoreSettings, *, patience: ObjectPatience | None = None) -> BlobBucket:
    """The bucket; raises StoreFailed if its library is missing or the settings can't be used. Blocks."""
    try:
        from obstore.exceptions import BaseError
    except ModuleNotFoundError as error:
        raise StoreFailed(f"server.blob_store needs one more package. Run: {INSTALL}") from error
    try:
        return BlobBucket(bucket, patience=patience)
    except (BaseError, ValueError) as error:
        raise StoreFailed(f"server.blob_store can't be used: {_reason(error)}") from error


def _client(bucket: BlobStoreSettings, patience: ObjectPatience) -> "S3Store":
    from obstore.store import S3Store

    def credentials() -> "S3Credential":
        return {
            "access_key_id": str(bucket.access_key_id),
            "secret_access_key": str(bucket.secret_access_key),
            "token": None,
            "expires_at": None,
        }

    client: ClientConfig = {
        "allow_http": bucket.endpoint.startswith("http://"),
        "connect_timeout": timedelta(seconds=patience.connect_s),
        "timeout": timedelta(days=1),  # the deadline of a request is ours, since it depends on the size
    }
    retry: RetryConfig = {
        "max_retries": patience.retries_max,
        "retry_timeout": timedelta(seconds=patience.answer_s),
        "backoff": {
            "init_backoff": timedelta(seconds=patience.retry_first_s),
            "max_backoff": timedelta(seconds=patience.retry_last_s),
        },
    }
    config: S3Config = {
        "region": bucket.region,
        "checksum_algorithm": "SHA256",
        "disable_bulk_delete": True,  # not every service can delete many at once
        "skip_signature": False,
    }
    if bucket.endpoint:
        # The library reads AWS's variables, too, and would prefer the endpoint for S3 alone.
        config |= {"endpoint": bucket.endpoint, "aws_endpoint_url_s3": bucket.endpoint}
    return S3Store(
        bucket.bucket,
        prefix=bucket.prefix.strip("/") or None,
        config=config,
        client_options=client,
        retry_config=retry,
        # Not as settings, because the library would add a session token that it finds in the environment.
        credential_provider=credentials if bucket.access_key_id else None,
    )
