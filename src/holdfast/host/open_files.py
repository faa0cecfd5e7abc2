"""The limit on open files and sockets, raised to what the settings allow clients to use."""

import logging
import resource

from holdfast.config.settings import Settings
from holdfast.decisions.fair_shares import with_extra

_log = logging.getLogger(__name__)

FILES_ELSE = 128  # libraries, the database, blobs, logs


def files_wanted(settings: Settings) -> int:
    """How many a fully loaded server needs."""
    limits = settings.server.limits
    return with_extra(limits.subscribers_max) + limits.unauthenticated_max + _files_of_others(settings)


def _files_of_others(settings: Settings) -> int:
    """How many the store, tools and model calls need."""
    return FILES_ELSE + 4 * with_extra(settings.server.max_concurrent_runs)


def files_to_allow(settings: Settings) -> int:
    """How many this process can have: what it wants, up to the hard limit, and never less than now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = files_wanted(settings)
    if soft == resource.RLIM_INFINITY:
        return soft
    return max(soft, wanted if hard == resource.RLIM_INFINITY else min(hard, wanted))


def connections_to_allow(settings: Settings) -> int:
    """How many connections leave enough files for the store, tools and model calls."""
    allowed = files_to_allow(settings)
    if allowed == resource.RLIM_INFINITY:
        return files_wanted(settings)
    return max(allowed - _files_of_others(settings), allowed // 2)


def allow_open_files(settings: Settings) -> None:
    """Raise the limit, which is usually 1024 and would leave further clients unanswered."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files_to_allow(settings), hard))
    except (ValueError, OSError) as error:
        _log.warning("could not raise the limit on open files: %s", error)
