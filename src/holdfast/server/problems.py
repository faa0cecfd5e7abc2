"""What goes wrong, in one envelope: {"error": {"message", "type", "param", "code"}}."""

from http import HTTPStatus

import msgspec
from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

from holdfast.interfaces import JournalError


class Problem(Exception):
    """An answer that says what is wrong and what to do."""

    def __init__(self, status: int, message: str, *, code: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.param = param


def bad_request(message: str, *, param: str | None = None, code: str = "invalid_request") -> Problem:
    """The request cannot be understood."""
    return Problem(400, message, code=code, param=param)


def run_not_found(run_id: str) -> Problem:
    """No such run, or none that this request applies to."""
    return Problem(404, f"Run not found: {run_id}", code="run_not_found")


def problem_response(problem: Problem) -> Response:
    """The envelope as an HTTP answer."""
    error = {
        "message": problem.message,
        "type": "server_error"
        if problem.status >= HTTPStatus.INTERNAL_SERVER_ERROR
        else "invalid_request_error",
        "param": problem.param,
        "code": problem.code,
    }
    return Response(msgspec.json.encode({"error": error}), problem.status, media_type="application/json")


def install(app: FastAPI) -> None:
    """Every failure leaves in the envelope."""

    async def as_problem(_: Request, error: Exception) -> Response:
        assert isinstance(error, Problem)
        return problem_response(error)

    async def as_http(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        code = HTTPStatus(error.status_code).name.lower()
        return problem_response(Problem(error.status_code, str(error.detail), code=code))

    async def as_store(_: Request, error: Exception) -> Response:
        return problem_response(
            Problem(503, f"The store does not take writes: {error}", code="store_unavailable")
        )

    async def as_bug(_: Request, error: Exception) -> Response:  # noqa: ARG001  # it is logged by the server
        return problem_response(
            Problem(500, "Holdfast itself failed; its log says how.", code="internal_error")
        )

    app.add_exception_handler(Problem, as_problem)
    app.add_exception_handler(HTTPException, as_http)
    app.add_exception_handler(JournalError, as_store)
    app.add_exception_handler(Exception, as_bug)
