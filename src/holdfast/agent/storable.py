"""Events that can be stored: tools bring texts that JSON cannot hold, such as the names of old files."""

from typing import Any, cast

import msgspec

from holdfast.codec import decode, encode
from holdfast.events import Event


def storable(event: Event) -> Event:
    """The event with each half of a character written as its number; mostly the same event."""
    try:
        encode(event)
    except UnicodeEncodeError:
        return decode(msgspec.json.encode(_whole(msgspec.to_builtins(event))))
    return event


def _whole(value: Any) -> Any:
    match value:
        case str():
            return value.encode("utf-8", "backslashreplace").decode()
        case list() | tuple():
            return [_whole(each) for each in cast("list[Any]", value)]
        case dict():
            return {_whole(name): _whole(each) for name, each in cast("dict[str, Any]", value).items()}
        case _:
            return value
