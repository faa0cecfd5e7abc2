"""JSON-RPC messages of an editor, line by line; a line that is no message is answered and skipped."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, cast

import msgspec

from holdfast.cli.stdio_lines import LineTooLong

Message: TypeAlias = dict[str, Any]
PARSE_ERROR, INVALID_REQUEST = -32700, -32600
PERMISSION, CANCEL = "session/request_permission", "$/cancel_request"
REQUESTS_MAX = 1_000  # of an editor, open at once


class BadMessage(Exception):
    """A line that is no message of the protocol."""

    def __init__(self, code: int, text: str, request_id: str | int | None = None) -> None:
        super().__init__(text)
        self.answer: Message = {
            "jsonrpc": "2.0",
            "id": request_id,
            "error": {"code": code, "message": text},
        }


def parsed(line: bytes) -> Message:
    """The message in a line; raises BadMessage."""
    try:
        message = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadMessage(PARSE_ERROR, f"This is not JSON: {error}") from None
    if not isinstance(message, dict):
        raise BadMessage(INVALID_REQUEST, "A message must be a JSON object; batches aren't supported.")
    found = cast("Message", message)
    request_id = found.get("id")
    if isinstance(request_id, bool) or not isinstance(request_id, str | int | None):
        raise BadMessage(INVALID_REQUEST, "An id must be a string or an integer.")
    if "method" in found:
        _check_call(found, request_id)
    else:
        _check_answer(found, request_id)
    return found


def _check_call(message: Message, request_id: str | int | None) -> None:
    if not isinstance(message["method"], str):
        raise BadMessage(INVALID_REQUEST, "A method must be a string.", request_id)
    if not isinstance(message.get("params"), dict | None):
        raise BadMessage(INVALID_REQUEST, "Params must be a JSON object.", request_id)


def _check_answer(message: Message, request_id: str | int | None) -> None:
    error = message.get("error")
    if "id" not in message or not {"result", "error"} & message.keys():
        raise BadMessage(INVALID_REQUEST, "A message needs a method, or an id and a result or an error.")
    if {"result", "error"} <= message.keys():
        # It's ambiguous, so it isn't consent.
        del message["result"]
        text = "The editor sent both a result and an error."
        message["error"] = {"code": INVALID_REQUEST, "message": text}
    elif "error" in message and not isinstance(error, dict):
        # The caller needs a response, and the details can't be shown.
        message["error"] = {"code": INVALID_REQUEST, "message": "The editor sent an error that is no object."}
    # Our own requests have numbers; an editor that answers with text answers nothing of ours.
    message["id"] = request_id if isinstance(request_id, int) else -1


class EditorTransport:
    """The transport of the protocol's own package, over lines."""

    def __init__(
        self,
        read: Callable[[], Awaitable[bytes]],
        write: Callable[[bytes], Awaitable[None]],
        *,
        requests_max: int = REQUESTS_MAX,
    ) -> None:
        self._read = read
        self._write = write
        self._requests_max = requests_max
        self._open = 0
        self._permissions: dict[str, int] = {}  # open requests for a permission, by the call of a tool

    async def send(self, message: Message) -> None:
        """Write a message."""
        if "method" not in message:
            self._open -= 1
        elif message["method"] == PERMISSION:
            self._permissions[message["params"]["toolCall"]["toolCallId"]] = message["id"]
        await self._write(msgspec.json.encode(message, enc_hook=str))  # errors may hold exceptions

    async def withdraw(self, tool_call_id: str) -> None:
        """Cancel a request, so that the editor stops prompting."""
        request_id = self._permissions.pop(tool_call_id, None)
        if request_id is not None:
            params = {"requestId": request_id}
            await self.send({"jsonrpc": "2.0", "method": CANCEL, "params": params})

    async def receive(self) -> Message | None:
        """The next message; None when the editor has left."""
        while True:
            try:
                line = await self._read()
                if not line:
                    return None
                return self._counted(parsed(line))
            except LineTooLong as error:
                await self._write(msgspec.json.encode(BadMessage(PARSE_ERROR, str(error)).answer))
            except BadMessage as error:
                await self._write(msgspec.json.encode(error.answer))

    def _counted(self, message: Message) -> Message:
        if "method" in message and "id" in message:
            if self._open >= self._requests_max:
                text = f"More than {self._requests_max} requests are open."
                raise BadMessage(INVALID_REQUEST, text, message["id"])
            self._open += 1
        elif "method" not in message:
            answered = [call for call, asked in self._permissions.items() if asked == message["id"]]
            for call in answered:
                del self._permissions[call]
        return message

    async def close(self) -> None:
        """Do nothing: the caller closes the streams."""
