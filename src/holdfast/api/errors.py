"""The envelope of every error."""

from typing import Annotated

import msgspec

from holdfast.api.body import one_of


class ErrorDetail(msgspec.Struct, frozen=True, kw_only=True):
    """The error. Programs should check `code`."""

    message: str = ""
    type: Annotated[
        str,
        one_of(
            "invalid_request_error",
            "authentication_error",
            "permission_error",
            "rate_limit_error",
            "server_error",
            *("not_found_error", "billing_error", "request_too_large", "overloaded_error", "timeout_error"),
        ),
    ] = ""
    param: str | None = None
    code: str = ""


class ErrorEnvelope(msgspec.Struct, frozen=True):
    """The envelope of every error."""

    error: ErrorDetail
