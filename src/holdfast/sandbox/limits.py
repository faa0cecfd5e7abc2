"""Resource limits of a command, set by the shell that starts it, so that everything it starts has them."""

import os

from holdfast.sandbox.profile import ProcessLimits

PROCESSES_MAX = 4_096
FILE_BYTES_MAX = 64 * 1024**3
# Shells call the limit of processes -u or -p. One that knows neither, or has a lower limit, goes on without.
_SET = (
    'exec 3>&2 2>/dev/null; ulimit -d "$0"; ulimit -u "$1" || ulimit -p "$1"; ulimit -f "$2"; '
    'shift 2; exec 2>&3 3>&-; exec "$@"'
)
_NONE = "unlimited"


def usual_limits() -> ProcessLimits:
    """Limits that only a runaway command meets: most of the memory, thousands of processes."""
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * 3 // 4
    except (OSError, ValueError):
        memory = 0
    return ProcessLimits(memory_bytes=memory, processes=PROCESSES_MAX, file_bytes=FILE_BYTES_MAX)


def limited(argv: tuple[str, ...], limits: ProcessLimits) -> tuple[str, ...]:
    """The same command, which first lowers its limits."""
    if limits == ProcessLimits():
        return argv
    # The memory limit is on private, writable memory: runtimes reserve far more addresses than they use.
    numbers = (
        str(limits.memory_bytes // 1024) if limits.memory_bytes else _NONE,
        str(limits.processes) if limits.processes else _NONE,
        str(limits.file_bytes // 512) if limits.file_bytes else _NONE,
    )
    return ("/bin/sh", "-c", _SET, *numbers, *argv)
