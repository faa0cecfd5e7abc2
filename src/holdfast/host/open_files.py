"""How many files and sockets may be open: as many as the settings allow clients to ask for."""

import logging
import resource

from holdfast.config.settings import Settings

_log = logging.getLogger(__name__)

FILES_ELSE = 128  # libraries, the database, blobs, logs


def files_wanted(settings: Settings) -> int:
    """With every place taken."""
    limits = settings.server
    return limits.limits.subscribers_max + 4 * limits.max_concurrent_runs + FILES_ELSE


def files_to_allow(settings: Settings) -> int:
    """How many this process can be allowed: as many as are wanted and there may be, or more already."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = files_wanted(settings)
    if soft == resource.RLIM_INFINITY:
        return soft
    return max(soft, wanted if hard == resource.RLIM_INFINITY else min(hard, wanted))


def connections_to_allow(settings: Settings) -> int:
    """How many connections at once leave enough files for the store, tools and model calls."""
    allowed = files_to_allow(settings)
    if allowed == resource.RLIM_INFINITY:
        return files_wanted(settings)
    others = FILES_ELSE + 4 * settings.server.max_concurrent_runs
    return max(allowed - others, allowed // 2)


def allow_open_files(settings: Settings) -> None:
    """Systems allow 1024 at first, and more to who asks; past that number nobody would be answered."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files_to_allow(settings), hard))
    except (ValueError, OSError) as error:
        _log.warning("no more files may be open than before: %s", error)
