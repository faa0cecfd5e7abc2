"""The log file, which has every line."""

import logging
import logging.handlers
import os
import sys
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from typing_extensions import override

from holdfast.config.settings import Settings
from holdfast.host.known_secrets import known_secrets
from holdfast.interfaces.ids import current_ids
from holdfast.redaction import Redactor, without_keys
from holdfast.safe_text import safe

LOG_BYTES_MAX = 10 * 1024 * 1024
# They log whole addresses and messages, which may be private.
CHATTY = ("mcp", "client", "httpx2")


class RedactingFormatter(logging.Formatter):
    """Writes lines, tracebacks included, without secrets and without anything that is formed like a key."""

    def __init__(self, form: str, redactor: Redactor) -> None:
        super().__init__(form)
        self._redactor = redactor

    @override
    def format(self, record: logging.LogRecord) -> str:
        return self.cleaned(super().format(record))

    def cleaned(self, text: str) -> str:
        """Return the text without secrets and control characters."""
        return safe(without_keys(self._redactor.redact_text(text)))


class JsonFormatter(RedactingFormatter):
    """Writes one JSON object per line, with the ids of the request, session and run that it's about."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, str] = {
            "time": at,
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self.cleaned(record.getMessage()),
            **current_ids(),
        }
        if record.exc_info:
            line["traceback"] = self.cleaned(self.formatException(record.exc_info))
        return msgspec.json.encode(line).decode()


class LogFile(logging.handlers.RotatingFileHandler):
    """A log file that is created again if someone removes it; a full disk is reported once."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, maxBytes=LOG_BYTES_MAX, backupCount=3, encoding="utf-8")
        self._is_failing = False

    @override
    def emit(self, record: logging.LogRecord) -> None:
        # If the file is gone, its stream is closed here, and the next line opens a new one.
        if self.stream is not None and not os.path.exists(self.baseFilename):  # noqa: PTH110  # never raises
            with suppress(OSError):
                self.stream.close()
            self.stream = None  # pyright: ignore[reportAttributeAccessIssue]
        super().emit(record)

    @override
    def handleError(self, record: logging.LogRecord) -> None:
        # The default prints a traceback.
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handleError(record)
        elif not self._is_failing:
            self._is_failing = True
            print(safe(f"holdfast: can't write {self.baseFilename}: {error.strerror}"), file=sys.stderr)


def log_to_file(settings: Settings, *further: logging.Handler) -> Redactor:
    """Log every line to the file, and to the other handlers at their own levels.

    Returns what removes secrets from the lines, for the servers of this process to share.
    """
    file = LogFile(settings.log_file)
    redactor = Redactor(known_secrets(settings))
    is_json = settings.log.format == "json"
    kind = JsonFormatter if is_json else RedactingFormatter
    file.setFormatter(kind("%(asctime)s %(levelname)s %(name)s: %(message)s", redactor))
    # Time and place of each line are in the file.
    for handler in further:
        handler.setFormatter(kind("holdfast: %(message)s", redactor))
    for chatty in CHATTY:
        logging.getLogger(chatty).setLevel(logging.ERROR)
    logging.basicConfig(level=logging.INFO, handlers=[file, *further])
    return redactor


def terminal_log(settings: Settings) -> logging.Handler:
    """A handler with the lines for a person who watches the server."""
    terminal = logging.StreamHandler()
    terminal.setLevel(settings.log.level.upper())
    if settings.log.level != "debug":
        terminal.addFilter(_is_for_people)
    return terminal


def _is_for_people(record: logging.LogRecord) -> bool:
    """Whether a line tells of a problem, or of what the server does about one."""
    own, _, place = record.name.partition(".")
    is_news = own == "holdfast" and not place.startswith("models")
    # Below errors, the HTTP server only complains about bad requests.
    least = logging.ERROR if own == "uvicorn" else logging.WARNING
    return is_news or record.levelno >= least
