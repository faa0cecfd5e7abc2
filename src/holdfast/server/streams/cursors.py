"""A reader's position in a session's log: a seq, and optionally the epoch of the log.

A cursor that the log doesn't have begins at the start: a replay repeats events, while a wait for a number
that never comes would skip them. That's the case beyond the end of the log, and for another epoch: a session
that was purged may be made again under its id, and a seq of the earlier log means nothing in the new one.
"""

from starlette.requests import Request

EPOCH_HEADER = b"x-holdfast-epoch"


def cursor_in(request: Request, *, epoch: str, last_seq: int) -> int:
    """The seq after which to continue in the log of this epoch; 0 is the start.

    `Last-Event-ID` or `after` is SEQ or SEQ@EPOCH.
    """
    given = request.headers.get("last-event-id") or request.query_params.get("after") or ""
    number, at, of_epoch = given.partition("@")
    if not (number.isascii() and number.isdigit()) or (at and of_epoch != epoch):
        return 0
    after = int(number[:18])
    return after if after <= last_seq else 0
