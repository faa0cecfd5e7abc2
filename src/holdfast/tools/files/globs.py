"""Matches paths with globs, and names the folders that aren't listed."""

from fnmatch import fnmatchcase

NOT_LISTED = frozenset(
    [
        ".git",
        ".hg",
        ".svn",
        "node_modules",
        "__pycache__",
        ".venv",
        "venv",
        ".tox",
        ".mypy_cache",
        ".pytest_cache",
        ".ruff_cache",
    ]
)


def glob_fits(glob: str, path: str) -> bool:
    """Whether a path matches a glob: ** is any depth; a glob without a slash matches names at any depth."""
    parts = path.split("/")
    wanted = glob.removeprefix("./").removeprefix("/").split("/")
    if "/" not in glob:
        return fnmatchcase(parts[-1], glob)
    # How many parts of the path may be used up so far; never more than there are, so it stays small.
    reached: set[int] = {0}
    for want in wanted:
        if want == "**":
            reached = set(range(min(reached, default=len(parts) + 1), len(parts) + 1))
        else:
            reached = {at + 1 for at in reached if at < len(parts) and fnmatchcase(parts[at], want)}
    return len(parts) in reached
