"""The log file, which has every line."""

import logging
import logging.handlers

from holdfast.settings import Settings

LOG_BYTES_MAX = 10 * 1024 * 1024
# They log whole addresses and messages, which may hold what is nobody's business.
CHATTY = ("mcp", "client", "httpx2")


def log_to(settings: Settings, *further: logging.Handler) -> None:
    """Every line goes to the file, and to whatever else there is as far as that wants it."""
    file = logging.handlers.RotatingFileHandler(
        settings.log_file, maxBytes=LOG_BYTES_MAX, backupCount=3, encoding="utf-8"
    )
    for chatty in CHATTY:
        logging.getLogger(chatty).setLevel(logging.ERROR)
    form = "%(asctime)s %(levelname)s %(name)s: %(message)s"
    logging.basicConfig(level=logging.INFO, format=form, handlers=[file, *further])


def to_terminal(settings: Settings) -> logging.Handler:
    """What a person who watches a server should see."""
    terminal = logging.StreamHandler()
    terminal.setLevel(settings.log.level.upper())
    if settings.log.level != "debug":
        terminal.addFilter(_is_for_people)
    # Time and place of each line are in the file.
    terminal.setFormatter(logging.Formatter("holdfast: %(message)s"))
    return terminal


def _is_for_people(record: logging.LogRecord) -> bool:
    """What is amiss, and what the server does about it; attempts of calls and what libraries do are not."""
    own, _, place = record.name.partition(".")
    is_news = own == "holdfast" and not place.startswith("models")
    # Below an error, the HTTP server only complains about what strangers send.
    least = logging.ERROR if own == "uvicorn" else logging.WARNING
    return is_news or record.levelno >= least
