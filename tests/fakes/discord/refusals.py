"""What the fake Discord says when it refuses a request."""

from collections.abc import Mapping
from typing import Any


class DiscordRefusal(Exception):
    """Discord says no: a status, its own code, and its words."""

    def __init__(self, status: int, code: int, text: str, errors: Mapping[str, Any] | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.code = code
        self.text = text
        self.errors = errors


def invalid_form(name: str, code: str, text: str) -> DiscordRefusal:
    """A field that Discord doesn't take."""
    errors = {name: {"_errors": [{"code": code, "message": text}]}}
    return DiscordRefusal(400, 50035, "Invalid Form Body", errors)


def too_long(name: str, count_max: int) -> DiscordRefusal:
    """A field that is too long."""
    return invalid_form(name, "BASE_TYPE_MAX_LENGTH", f"Must be {count_max} or fewer in length.")
