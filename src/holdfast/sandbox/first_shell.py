"""The shell that runs first in the sandbox: it lowers the limits, and becomes the command or waits for it."""

import os

from holdfast.sandbox.profile import ProcessLimits

PROCESSES_MAX = 4_096
FILE_BYTES_MAX = 64 * 1024**3
_SHELL = "/bin/sh"
_BASH = "/bin/bash"  # closes descriptors with numbers of several digits
_NONE = "unlimited"
# Shells call the limit of processes -u or -p. One that knows neither, or has a lower limit, does without.
_LIMIT = 'exec 3>&2 2>/dev/null; ulimit -d "$0"; ulimit -u "$1" || ulimit -p "$1"; ulimit -f "$2"; shift 2; '
_BECOME = 'exec 2>&3 3>&-; exec "$@"'
LEFT_BEHIND = "[left behind by the command, and ended: "
# What is left when the command has ended dies with its namespace, so it is named here or nowhere. A signal
# that ends the command must not end this shell first. In a subshell the command has the only standard error,
# so this shell can't report there how it ended.
_WAIT = """trap told=yes TERM INT HUP QUIT
(exec "$@") 2>&3 3>&-
code=$?
left=
for each in /proc/[0-9]*; do
  number=${each#/proc/}
  [ "$number" = 1 ] || [ "$number" = $$ ] && continue
  { read -r stat < "$each/stat" && read -r name < "$each/comm"; } || continue
  stat=${stat##*) }
  [ "${stat%% *}" = Z ] || left="$left${left:+, }$name"
done
if [ "$left" ] && [ -z "$told" ]; then
  printf 'LEFT_BEHIND%s]\\n' "$left"
fi
exit $code
""".replace("LEFT_BEHIND", LEFT_BEHIND)


def usual_limits() -> ProcessLimits:
    """Limits that only a runaway command meets: most of the memory, thousands of processes."""
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * 3 // 4
    except (OSError, ValueError):
        memory = 0
    return ProcessLimits(memory_bytes=memory, processes=PROCESSES_MAX, file_bytes=FILE_BYTES_MAX)


def limited(argv: tuple[str, ...], limits: ProcessLimits, *, close: tuple[int, ...] = ()) -> tuple[str, ...]:
    """The same command, which first lowers its limits and closes these descriptors."""
    if limits == ProcessLimits() and not close:
        return argv
    return (*_first(_BECOME, close), *_numbers(limits), *argv)


def waited_for(
    argv: tuple[str, ...], limits: ProcessLimits, *, close: tuple[int, ...] = ()
) -> tuple[str, ...]:
    """The same; when the command has ended, what it left running is named in its output.

    This needs a process namespace, in which only the command's own processes are.
    """
    return (*_first(_WAIT, close), *_numbers(limits), *argv)


def _first(then: str, close: tuple[int, ...]) -> tuple[str, ...]:
    closing = "".join(f"exec {number}<&-; " for number in close)
    return (_BASH if close else _SHELL, "-c", closing + _LIMIT + then)


def _numbers(limits: ProcessLimits) -> tuple[str, str, str]:
    # The memory limit is on private, writable memory: runtimes reserve far more addresses than they use.
    return (
        str(limits.memory_bytes // 1024) if limits.memory_bytes else _NONE,
        str(limits.processes) if limits.processes else _NONE,
        str(limits.file_bytes // 512) if limits.file_bytes else _NONE,
    )
