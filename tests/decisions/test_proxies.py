"""Proxies: who is on the way, who we are to them, and that nobody else gets to know."""

import base64

import pytest

from holdfast.decisions.proxies import proxy_at, proxy_secrets, shown_proxy

PROXY = "http://ann:p%40ss%2Fword@proxy.example:3128"


def test_a_url_without_a_user_says_nothing_of_us() -> None:
    proxy = proxy_at("http://proxy.example:3128/")
    assert proxy is not None
    assert (proxy.url, proxy.place) == ("http://proxy.example:3128", "proxy.example:3128")
    assert (proxy.host, proxy.port, proxy.authorization) == ("proxy.example", 3128, "")


def test_user_and_password_are_read_as_they_are_meant() -> None:
    proxy = proxy_at(PROXY)
    assert proxy is not None
    scheme, _, encoded = proxy.authorization.partition(" ")
    assert (scheme, base64.b64decode(encoded)) == ("Basic", b"ann:p@ss/word")
    assert proxy.url == "http://proxy.example:3128"
    assert repr(proxy) == "Proxy('http://proxy.example:3128')"


@pytest.mark.parametrize(("url", "port"), [("http://p", 80), ("https://p", 443), ("http://[::1]:8080", 8080)])
def test_the_port_is_the_usual_one_unless_it_is_named(url: str, port: int) -> None:
    proxy = proxy_at(url)
    assert proxy is not None
    assert (proxy.url, proxy.port) == (url, port)


def test_no_url_is_no_proxy() -> None:
    assert proxy_at("") is None
    assert proxy_secrets("") == proxy_secrets("http://ann@proxy.example") == ()


def test_what_is_shown_holds_neither_user_nor_password() -> None:
    """P11."""
    assert shown_proxy(PROXY) == "http://…@proxy.example:3128"
    assert shown_proxy("http://proxy.example:3128") == "http://proxy.example:3128"
    assert shown_proxy("") == ""


def test_the_password_is_a_secret_in_every_form() -> None:
    """P11."""
    encoded = base64.b64encode(b"ann:p@ss/word").decode()
    assert proxy_secrets(PROXY) == ("p@ss/word", "p%40ss%2Fword", encoded)
