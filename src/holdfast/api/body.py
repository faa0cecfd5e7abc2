"""The base of all response bodies."""

from typing import Annotated, TypeAlias

import msgspec


class ResponseBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """A response body. Clients ignore fields added by newer servers.

    A field without a default is always sent. A field with its default value (None, "", 0, empty) is omitted.
    msgspec compares by identity, so floats default to None.
    """


def one_of(*words: str) -> msgspec.Meta:
    """Return the currently known values. Clients must accept others, because newer servers can add some."""
    return msgspec.Meta(extra_json_schema={"enum": list(words)})


def doc(text: str) -> msgspec.Meta:
    """Return a field's description for the API reference."""
    return msgspec.Meta(description=text)


# A folder on the server; an empty text means none.
AbsolutePath: TypeAlias = Annotated[str, msgspec.Meta(extra_json_schema={"pattern": r"^(/[^\u0000]*)?$"})]
ALWAYS_TRUE = msgspec.Meta(extra_json_schema={"enum": [True]})
ALWAYS_FALSE = msgspec.Meta(extra_json_schema={"enum": [False]})
