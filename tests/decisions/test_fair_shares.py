"""Fair shares: who gets a place when others hold all of them."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.decisions.fair_shares import FairShare, with_extra


def filled(**held: int) -> FairShare:
    shares = FairShare()
    for key, count in held.items():
        for _ in range(count):
            shares.acquire(key)
    return shares


def test_a_key_that_takes_everything_leaves_a_few_places_to_each_of_the_others() -> None:
    """P10: of 64 places, four each, and 16 in all."""
    shares = filled(greedy=64)
    assert not shares.has_room("greedy", 64)
    got = 0
    for other in "abcdef":
        while shares.has_room(other, 64):
            shares.acquire(other)
            got += 1
        assert shares.held(other) <= 4
    assert got == 16
    shares.release("a")
    assert (shares.has_room("a", 64), shares.has_room("greedy", 64)) == (True, False)


def test_places_past_the_limit_that_greedy_keys_hold_are_not_taken_from_the_others() -> None:
    shares = filled(greedy=100, another=100)
    assert (shares.has_room("b", 64), shares.has_room("another", 64)) == (True, False)


def test_where_nobody_is_greedy_the_limit_holds_but_for_the_extra_places() -> None:
    assert filled(**{f"k{nth}": 1 for nth in range(79)}).has_room("b", 64)
    assert not filled(**{f"k{nth}": 1 for nth in range(80)}).has_room("b", 64)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=60), st.integers(0, 12))
def test_no_more_are_given_than_there_are_and_no_place_is_refused_that_is_free(
    steps: list[tuple[str, bool]], most: int
) -> None:
    """P10: one key alone never gets more than the limit, and all together not more than a quarter more."""
    shares = FairShare()
    for key, takes in steps:
        if takes and shares.has_room(key, most):
            shares.acquire(key)
        elif not takes and shares.held(key):
            shares.release(key)
        assert shares.used == sum(map(shares.held, "abc")) <= with_extra(most)
        assert all(shares.held(one) <= most for one in "abc")
        assert shares.used >= most or all(shares.has_room(one, most) for one in "abc")
