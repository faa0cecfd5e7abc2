"""Tests of the decorators that put many cases into one test: each case runs, and each failure is reported."""

import pytest

from holdfast.targets import Wire
from side_by_side import WIRES, on_each_wire
from tables import for_each_row


def test_every_row_runs_and_each_that_fails_is_named() -> None:
    seen: list[int] = []

    @for_each_row(("number", "name"), [(1, "one"), (2, "two"), (3, "three")])
    def check(number: int, name: str) -> None:
        seen.append(number)
        assert number == 2, name

    with pytest.raises(ExceptionGroup, match="2 of 3 rows failed") as raised:
        check()  # pyright: ignore[reportCallIssue]  # the rows have the arguments
    assert seen == [1, 2, 3]
    notes = [error.__notes__[-1] for error in raised.value.exceptions]
    assert notes == ["in the row [1, 'one']", "in the row [3, 'three']"]


async def test_every_wire_of_every_row_runs_and_each_that_fails_is_named() -> None:
    seen: set[tuple[Wire, int]] = set()

    @on_each_wire
    @for_each_row("number", [1, 2])
    async def check(wire: Wire, number: int) -> None:
        seen.add((wire, number))
        if (wire, number) == ("chat", 2):
            pytest.fail("not this one")

    with pytest.raises(BaseExceptionGroup, match="1 of 3 wires failed") as raised:
        await check()
    assert seen == {(wire, number) for wire in WIRES for number in (1, 2)}
    (error,) = raised.value.exceptions
    assert error.__notes__ == ["on the wire chat"]


def test_a_table_without_a_row_is_refused() -> None:
    with pytest.raises(AssertionError, match="proves nothing"):
        for_each_row("number", [])
