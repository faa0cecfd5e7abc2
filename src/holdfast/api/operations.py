"""The table of all operations, from which routes, authentication, the docs page and OpenAPI are generated."""

import re
from collections.abc import Callable

from holdfast.api.operation import Operation
from holdfast.api.run_operations import RUN_OPERATIONS
from holdfast.api.server_operations import SERVER_OPERATIONS
from holdfast.api.session_operations import SESSION_OPERATIONS
from holdfast.catalog import FEATURES

# Run routes come first because they get the most requests.
OPERATIONS: tuple[Operation, ...] = (
    *RUN_OPERATIONS,
    *SESSION_OPERATIONS,
    *SERVER_OPERATIONS,
    *(operation for one in FEATURES.values() if one.operations for operation in one.part(one.operations)),
)


def paths_of(endpoint: str) -> frozenset[str]:
    """Return every path of an endpoint."""
    return frozenset(path for one in OPERATIONS if one.endpoint == endpoint for path in one.paths)


def is_path_of(endpoint: str) -> Callable[[str], bool]:
    """Return a predicate that matches the paths of an endpoint with any parameters."""
    patterns = "|".join(re.sub(r"{\w+}", "[^/]+", path) for path in sorted(paths_of(endpoint)))
    fits = re.compile(patterns)
    return lambda path: fits.fullmatch(path) is not None


def _root(path: str) -> str:
    first, slash, _ = path.removeprefix("/").partition("/")
    return f"/{first}{slash}"


# Paths with these prefixes belong to the API, even if no operation matches.
API_ROOTS: tuple[str, ...] = tuple(sorted({_root(path) for one in OPERATIONS for path in one.paths}))
COOKIE_PATHS: frozenset[str] = frozenset(path for one in OPERATIONS if one.by_cookie for path in one.paths)
