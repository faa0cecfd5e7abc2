"""A process that stores one large blob in a bucket: `python object_child.py DSN ENDPOINT PREFIX`."""

import asyncio
import sys

from holdfast.config.fields import Secret
from holdfast.config.server import BlobStoreSettings
from holdfast.features.postgres.objects import open_objects
from holdfast.features.postgres.store import PostgresStore
from holdfast.redaction import NO_SECRETS

KEY_ID, KEY, NAME = "holdfast-tests", "a-secret-of-the-tests", "bucket-of-tests"


async def main(dsn: str, endpoint: str, prefix: str) -> None:
    """Store it, however long that takes."""
    bucket = BlobStoreSettings(
        bucket=NAME,
        endpoint=endpoint,
        prefix=prefix,
        access_key_id=Secret(KEY_ID),
        secret_access_key=Secret(KEY),
    )
    store = await PostgresStore.open(dsn, NO_SECRETS, name="child", objects=open_objects(bucket))
    await store.put_blob(bytes(range(256)) * 8_192)


asyncio.run(main(*sys.argv[1:]))
