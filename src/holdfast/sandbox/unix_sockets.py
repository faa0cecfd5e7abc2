"""Finds the Unix sockets that programs outside the sandbox listen on.

A socket in the file system answers from any network namespace, so a command could have such a program act for
it. Sockets of other sandboxed commands are in network namespaces of their own and stay reachable.
"""

from collections.abc import Iterable

_SOCKETS = "/proc/net/unix"
_FIELDS_BEFORE_PATH = 7


def served_outside(paths: Iterable[str]) -> set[str]:
    """The sockets that a program in our own network namespace has bound, by their names. Blocks.

    A program can bind a relative path, so only the last part of each is compared.
    """
    wanted = set(paths)
    if not wanted:
        return wanted
    try:
        with open(_SOCKETS, encoding="utf-8", errors="surrogateescape") as table:  # noqa: PTH123 - a text
            rows = [line.rstrip("\n").split(maxsplit=_FIELDS_BEFORE_PATH) for line in table]
    except OSError:
        return wanted  # any of them may be
    names = {row[-1].rpartition("/")[2] for row in rows if len(row) > _FIELDS_BEFORE_PATH}
    return {path for path in wanted if path.rpartition("/")[2] in names}
