"""The secrets that a request must not leave behind: those of the server, and the key that its caller sent.

Contents (messages, titles, files) lose such a secret, and names (session ids, key names) that contain one are
refused. The secrets are in a context variable, because the store must know them too.
"""

from contextvars import ContextVar

from msgspec import Struct

from holdfast.redaction import NO_SECRETS, Redactor, is_like_key, without_keys
from holdfast.server.problems import Problem, bad_request

_of_request: ContextVar["_RequestSecrets | None"] = ContextVar("holdfast_request_secrets", default=None)


class _RequestSecrets(Struct):
    """The secrets of one request; many requests store and show nothing, so they need no redactor."""

    known: Redactor
    sent: tuple[str, ...]
    _redactor: Redactor | None = None

    def redactor(self) -> Redactor:
        """The redactor of the request, made when it's first needed."""
        if self._redactor is None:
            self._redactor = self.known.also(self.sent)
        return self._redactor


def begin_request(known: Redactor, *sent: str) -> None:
    """From here on, what the caller sent as its key is a secret, like those that the server knows."""
    _of_request.set(_RequestSecrets(known, sent))


def request_redactor(otherwise: Redactor = NO_SECRETS) -> Redactor:
    """The redactor of the current request; outside of one, the one that is given."""
    secrets = _of_request.get()
    return otherwise if secrets is None else secrets.redactor()


def check_holds_no_secret(name: str, *, param: str) -> None:
    """Raise a Problem if a name that would be stored and shown contains a key."""
    if request_redactor().redact_text(name) != name:
        raise _names_secret(param)


def check_is_no_key(name: str, *, param: str) -> None:
    """The same for names, which have no reason to look like a key."""
    if is_like_key(name) or request_redactor().redact_text(name) != name:
        raise _names_secret(param)


def without_secrets(problem: Problem) -> Problem:
    """The problem with no secret in its text, and nothing that is formed like an API key."""
    message = without_keys(request_redactor().redact_text(problem.message))
    param = None if problem.param is None else without_keys(request_redactor().redact_text(problem.param))
    if (message, param) == (problem.message, problem.param):
        return problem
    return Problem(problem.status, message, code=problem.code, param=param, headers=problem.headers)


def _names_secret(param: str) -> Problem:
    return bad_request(
        f"'{param}' contains an API key. It would be stored and shown, so choose another one",
        param=param,
        code="secret_in_name",
    )
