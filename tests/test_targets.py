"""Targets as programs write them."""

import pytest

from holdfast.targets import Target


def test_an_address_with_a_password_is_refused_before_a_call_fails_because_of_it() -> None:
    with pytest.raises(ValueError, match=r"base_url of the target 'main' must not contain a user"):
        Target(name="main", wire="chat", base_url="http://me:pw@127.0.0.1/v1", model="m", api_key="k")
    Target(name="main", wire="chat", base_url="http://127.0.0.1/v1/@me", model="m")
