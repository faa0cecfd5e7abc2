"""One test for a table of rows: it is set up once, and a failure names its rows."""

import inspect
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar

import pytest

LABEL_CHARS_MAX = 200

Test = TypeVar("Test", bound=Callable[..., Any])


def for_each_row(
    names: str | Sequence[str], rows: Iterable[Any], *, ids: Iterable[object] | None = None
) -> Callable[[Test], Test]:
    """Run the test with each row, as `pytest.mark.parametrize` would, but in one test.

    All rows run, also after one has failed. A test that needs a new fixture for each row can't use this.
    """
    words = [word.strip() for word in names.split(",")] if isinstance(names, str) else list(names)
    table = [_row(words, row) for row in rows]
    assert table, "a test without a row proves nothing"
    known = ids if ids is not None else (list(values.values()) for values in table)
    labels = [str(label)[:LABEL_CHARS_MAX] for label in known]
    labelled = list(zip(labels, table, strict=True))

    def decorated(test: Test) -> Test:
        run = _awaited(test, labelled) if inspect.iscoroutinefunction(test) else _called(test, labelled)
        whole = inspect.signature(test)
        kept = [parameter for name, parameter in whole.parameters.items() if name not in words]
        setattr(run, "__signature__", whole.replace(parameters=kept))  # noqa: B010  # pytest reads it
        return run

    return decorated


def _row(words: Sequence[str], row: Any) -> dict[str, Any]:
    return dict(zip(words, row if len(words) > 1 else (row,), strict=True))


def _awaited(test: Any, rows: Sequence[tuple[str, dict[str, Any]]]) -> Any:
    @wraps(test)
    async def run(**others: Any) -> None:
        failed: list[BaseException] = []
        for label, values in rows:
            with _noted(label, failed):
                await test(**values, **others)
        _report(failed, len(rows))

    return run


def _called(test: Any, rows: Sequence[tuple[str, dict[str, Any]]]) -> Any:
    @wraps(test)
    def run(**others: Any) -> None:
        failed: list[BaseException] = []
        for label, values in rows:
            with _noted(label, failed):
                test(**values, **others)
        _report(failed, len(rows))

    return run


@contextmanager
def _noted(label: str, failed: list[BaseException]) -> Generator[None]:
    try:
        yield
    except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001  # all of them are reported
        error.add_note(f"in the row {label}")
        failed.append(error)


def _report(failed: Sequence[BaseException], rows: int) -> None:
    if failed:
        raise BaseExceptionGroup(f"{len(failed)} of {rows} rows failed", failed)
