"""The error object that both OpenAI wires share."""

from holdfast.chaos.answer import ProviderError
from holdfast.chaos.frames import JsonObject

_BY_STATUS: dict[int, tuple[str, str, str]] = {
    400: ("invalid_request_error", "", "The request is not valid."),
    401: ("invalid_request_error", "invalid_api_key", "Incorrect API key provided."),
    403: ("insufficient_permissions", "", "You are not allowed to do this."),
    404: ("invalid_request_error", "not_found", "There is nothing here."),
    413: ("invalid_request_error", "request_too_large", "The request is too large."),
    429: ("requests", "rate_limit_exceeded", "Rate limit reached. Please try again later."),
    503: ("service_unavailable_error", "service_unavailable", "The engine is currently overloaded."),
}


def openai_error(status: int, fault: ProviderError) -> JsonObject:
    """The inner error object for a status, with what the fault says in place of the usual words."""
    kind, code, message = _BY_STATUS.get(status, ("server_error", "server_error", "The server had an error."))
    return {
        "message": fault.message or message,
        "type": fault.type or kind,
        "param": None,
        "code": fault.code or code or None,
    }
