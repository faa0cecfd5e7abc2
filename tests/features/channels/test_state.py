"""The state of a channel as a fold of its log."""

from holdfast import events as e
from holdfast.features.channels import state as channel_module
from holdfast.features.channels.events import (
    ChannelChatBound,
    ChannelCodeCreated,
    ChannelCodeTried,
    ChannelConnected,
    ChannelFailed,
    ChannelHomeChosen,
    ChannelMessageClosed,
    ChannelModelChosen,
    ChannelResultRequested,
    ChannelUpdateLogged,
    ChannelUserAllowed,
    ChannelUserRevoked,
)
from holdfast.features.channels.state import (
    AcceptedMessage,
    ChannelState,
    ChannelUser,
    apply_to_channel,
    code_digest,
)


def channel_of(*events: e.Event) -> ChannelState:
    state = ChannelState()
    for seq, event in enumerate(events, 1):
        apply_to_channel(state, seq, event)
    return state


def taken(key: str = "m:1:5", became: str = "message", **fields: object) -> ChannelUpdateLogged:
    usual: dict[str, object] = {"chat": "1", "user": "u", "platform_id": "5"}
    return ChannelUpdateLogged(at_ms=3, key=key, became=became, **(usual | fields))  # pyright: ignore[reportArgumentType]


def test_trouble_lasts_until_the_platform_answers() -> None:
    state = channel_of(ChannelFailed(at_ms=1, why="away", hint="wait"))
    assert (state.trouble, state.hint, state.is_connected, state.since_ms) == ("away", "wait", False, 1)
    state = channel_of(
        ChannelFailed(at_ms=1, why="away"),
        ChannelConnected(at_ms=2, account="bot"),
        e.SessionPinned(at_ms=3),
    )
    assert (state.trouble, state.account, state.is_connected, state.since_ms) == ("", "bot", True, 2)


def test_what_may_have_arrived_is_repeated_once_the_platform_is_back_and_limits_are_kept() -> None:
    """P14: nobody waits an hour for a repeat that a platform could take now."""
    unclear, limited = (e.DeliveryIntended(at_ms=1, chat=chat, message="answer", run="r") for chat in "12")
    state = channel_of(
        unclear,
        e.DeliveryUnknown(at_ms=2, delivery=unclear.key, why="cut", until_ms=90),
        ChannelConnected(at_ms=5, account="bot"),
    )
    assert state.outbox.deliveries[unclear.key].until_ms == 5
    postponed = e.DeliveryPostponed(at_ms=2, delivery=limited.key, why="later", until_ms=90)
    state = channel_of(limited, postponed, ChannelConnected(at_ms=5, account="bot"))
    assert state.outbox.deliveries[limited.key].until_ms == 90


def test_a_code_is_used_once_expires_and_is_void_after_five_wrong_tries() -> None:
    """P11: a pairing code can't be guessed."""
    assert code_digest("chn_tg", " ab12cd34 ") == code_digest("chn_tg", "AB12CD34")
    made = ChannelCodeCreated(at_ms=1, digest="d", expires_at_ms=600)
    assert channel_of(made).open_codes(599) == ["d"]
    assert channel_of(made).open_codes(600) == []
    allowed = ChannelUserAllowed(at_ms=2, user="u", name="Ann", role="approver", code="d")
    state = channel_of(made, allowed)
    assert state.open_codes(3) == []
    assert state.users == {"u": ChannelUser("u", "Ann", "approver", 2)}
    tries = [ChannelCodeTried(at_ms=2, user="x") for _ in range(5)]
    assert channel_of(made, *tries[:4]).open_codes(3) == ["d"]
    assert channel_of(made, *tries).open_codes(3) == []
    assert channel_of(made, *tries[:4], made, *tries[:4]).open_codes(3) == ["d"]
    not_needed = ChannelCodeTried(at_ms=2, user="u", code="d")
    state = channel_of(made, not_needed, not_needed)
    assert (state.codes, state.wrong_tries) == ({}, 0)


def test_who_is_revoked_is_out_until_they_are_allowed_again() -> None:
    allowed = ChannelUserAllowed(at_ms=1, user="u")
    revoked = ChannelUserRevoked(at_ms=2, user="u")
    state = channel_of(allowed, revoked)
    assert (state.users, state.revoked) == ({}, {"u"})
    state = channel_of(allowed, revoked, allowed)
    assert (list(state.users), state.revoked) == (["u"], set())


def test_a_chat_has_one_session_at_a_time_and_an_earlier_one_keeps_its_chat() -> None:
    state = channel_of(
        ChannelChatBound(at_ms=1, chat="1", session_id="a"),
        ChannelChatBound(at_ms=2, chat="1", session_id="b"),
        ChannelModelChosen(at_ms=3, chat="1", model="m"),
    )
    assert state.sessions == {"1": "b"}
    assert state.chats == {"a": "1", "b": "1"}
    assert state.bound == {"1": 2}
    assert state.models == {"1": "m"}


def test_a_message_is_awaited_until_it_is_settled() -> None:
    message = taken(session_id="s", message_id="m")
    state = channel_of(message)
    known = AcceptedMessage("1", "s", "m", "5")
    assert state.keys == {"m:1:5": None}
    assert state.awaited == {"m": known}
    assert state.accepted == {("1", "5"): known}
    state = channel_of(message, ChannelMessageClosed(at_ms=4, message_id="m"))
    assert (state.awaited, state.accepted) == ({}, {("1", "5"): known})
    assert channel_of(taken(session_id="s", message_id="m", platform_id="")).accepted == {}
    assert channel_of(taken(became="command")).awaited == {}


def test_a_chat_is_told_once_what_becomes_of_a_message_from_elsewhere() -> None:
    """P14: a trigger that fires again after a crash wants the same, and two chats are two wishes."""
    here, there = (
        ChannelResultRequested(at_ms=1, chat=chat, session_id="s", message_id="m") for chat in ("1", "2")
    )
    state = channel_of(here, there, here)
    assert list(state.awaited) == ["m@1", "m@2"]
    assert state.chats == {"s": "1"}
    assert state.accepted == {}
    settled = ChannelMessageClosed(at_ms=2, message_id="m", chat="1")
    state = channel_of(here, there, settled, here)
    assert list(state.awaited) == ["m@2"]


def test_who_was_refused_is_remembered_and_whoever_writes_can_be_answered_again() -> None:
    blocked = [
        e.DeliveryIntended(at_ms=1, chat="1", message="answer", run="r"),
        e.DeliveryRejected(at_ms=2, delivery="r/answer/0", why="blocked", ends_chat=True),
    ]
    state = channel_of(*blocked, taken(became="refused"))
    assert (list(state.refused), list(state.outbox.closed_chats)) == (["u"], ["1"])
    state = channel_of(*blocked, taken(became="refused"), ChannelUserAllowed(at_ms=4, user="u"), taken("k"))
    assert (list(state.refused), list(state.outbox.closed_chats)) == ([], [])


def test_only_the_newest_updates_are_remembered() -> None:
    state, count = ChannelState(), channel_module.KEYS_MAX + 1
    for number in range(count):
        apply_to_channel(state, 1, taken(str(number), became="ignored"))
    assert len(state.keys) == count - 1
    assert "0" not in state.keys


def test_the_newest_message_of_each_conversation_is_known_whatever_order_they_came_in() -> None:
    """What a channel catches up from: ids grow, and longer ones are greater."""
    ids = [("C1", "99"), ("D1", "7"), ("C1", "100"), ("C1", "98"), ("", "500")]
    state = channel_of(
        *(taken(f"k{at}", conversation=place, platform_id=one) for at, (place, one) in enumerate(ids))
    )
    assert {place: last.platform_id for place, last in state.last_taken.items()} == {"D1": "7", "C1": "100"}
    assert list(state.last_taken) == ["D1", "C1"], "the one that was active last is last"


def test_what_an_account_numbers_has_a_name_of_its_own() -> None:
    """P2: another bot counts its messages for itself; equal numbers are no repeats."""
    one, two = (ChannelConnected(at_ms=1, account=account) for account in ("one", "two"))
    assert channel_of().of_account("m:1:5") == "m:1:5"
    assert channel_of(one, one).of_account("m:1:5") == "m:1:5"
    assert channel_of(one, two).of_account("m:1:5") == "1/m:1:5"
    assert channel_of(one, two).of_account("") == ""
    assert (channel_of(one).numbered("5"), channel_of(one).numbered("1/5")) == ("5", "")
    assert (channel_of(one, two).numbered("5"), channel_of(one, two).numbered("1/5")) == ("", "5")
    assert channel_of(one, two, one).of_account("m:1:5") == "m:1:5"


def test_the_sessions_of_a_chat_are_its_own_those_it_awaits_and_those_it_is_told_of() -> None:
    """P5: what was asked before /new belongs to the chat until it is answered."""
    state = channel_of(
        ChannelChatBound(at_ms=1, chat="1", session_id="a"),
        taken("k1", session_id="a", message_id="m1"),
        ChannelChatBound(at_ms=2, chat="1", session_id="b"),
        ChannelResultRequested(at_ms=3, chat="1", session_id="t", message_id="m2", title="news"),
    )
    assert state.sessions_in("1") == ["b", "a"]
    assert state.sessions_reported_in("1") == ["b", "a", "t"]
    assert state.sessions_in("2") == state.sessions_reported_in("2") == []
    assert state.awaited["m2@1"].title == "news"


def test_what_became_no_message_is_remembered_for_its_edits() -> None:
    """P9: an edit of it is answered."""
    state = channel_of(taken("k", became="answer"), taken("k2", became="edit", platform_id="9"))
    assert list(state.used) == [("1", "5")]


def test_cards_of_a_chat_are_numbered_and_a_number_never_gets_another_request() -> None:
    """P8: also if the card is edited or the request of another chat has the same number."""

    def card(chat: str, ask_id: str, **fields: object) -> e.DeliveryIntended:
        return e.DeliveryIntended(at_ms=1, chat=chat, message=ask_id, run="r", **fields)  # pyright: ignore[reportArgumentType]

    state = channel_of(
        card("1", "ask_a"),
        card("1", "answer"),
        card("1", "ask_a", edits="k"),
        card("2", "ask_b"),
        card("1", "ask_c"),
        card("1", "ask_a"),
    )
    numbers = [
        state.card_number("1", "ask_a"),
        state.card_number("1", "ask_c"),
        state.card_number("2", "ask_b"),
    ]
    assert numbers == [1, 2, 1]
    assert (state.card_number("1", "ask_b"), state.card_number("3", "ask_a")) == (0, 0)


def test_a_home_chat_is_chosen_or_configured() -> None:
    state = channel_of(ChannelHomeChosen(at_ms=1, chat="1"), ChannelHomeChosen(at_ms=2, chat="2", by="u"))
    assert (state.home, state.configured_home) == ("2", "1")
