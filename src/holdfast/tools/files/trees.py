"""What lies below a path, by name alone: without following links, and up to a bound."""

import os
import stat

from holdfast.policy.places import Below

NAMES_MAX = 5_000


def below(path: str) -> Below:
    """What a copy of the path would bring along; blocks."""
    try:
        found = os.lstat(path)
    except (OSError, ValueError):
        return Below(known=False)
    if not stat.S_ISDIR(found.st_mode):
        return Below(links=stat.S_ISLNK(found.st_mode))
    names: list[str] = []
    links = False
    ahead = [""]
    while ahead:
        folder = ahead.pop()
        try:
            with os.scandir(f"{path}/{folder}") as entries:
                for entry in entries:
                    name = f"{folder}{entry.name}"
                    names.append(name)
                    links = links or entry.is_symlink()
                    if entry.is_dir(follow_symlinks=False):
                        ahead.append(f"{name}/")
                    if len(names) > NAMES_MAX:
                        return Below(tuple(names), links, known=False)
        except OSError:
            return Below(tuple(names), links, known=False)
    return Below(tuple(names), links)
