"""What all response bodies have in common."""

from typing import Annotated, TypeAlias

import msgspec


class ResponseBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """The server encodes it and the client decodes it; fields that a newer server adds are ignored.

    A field without a default is always sent. One with its default value (None, "", 0, empty) is
    left out; msgspec compares by identity, so a number with a fraction defaults to None.
    """


def one_of(*words: str) -> msgspec.Meta:
    """The words that a text may be today; clients accept others, because a newer server may have more."""
    return msgspec.Meta(extra_json_schema={"enum": list(words)})


# A folder on the server; an empty text means none.
AbsolutePath: TypeAlias = Annotated[str, msgspec.Meta(extra_json_schema={"pattern": r"^(/[^\u0000]*)?$"})]
ALWAYS_TRUE = msgspec.Meta(extra_json_schema={"enum": [True]})
ALWAYS_FALSE = msgspec.Meta(extra_json_schema={"enum": [False]})
