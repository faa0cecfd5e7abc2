"""The relay's settings: names of targets, and no target that is this server."""

import pytest

from config.given import TARGET, given, loaded
from holdfast.config.load import BadConfiguration, load
from tables import for_each_row


def test_a_single_target_needs_no_list() -> None:
    text = TARGET + '[relay.models]\n"claude-*" = "main"\nboth = ["main", "main"]\n'
    models = loaded(text).settings.relay.models
    assert models == {"claude-*": ("main",), "both": ("main", "main")}


def test_a_name_of_no_target_is_refused() -> None:
    with pytest.raises(BadConfiguration, match=r"names no target: 'other'; the targets are main"):
        load(given(TARGET + '[relay.models]\n"gpt-*" = "other"\n'))


@for_each_row("host", ["127.0.0.1", "localhost", "[::1]"])
def test_a_target_that_is_this_server_is_refused_and_the_variable_is_named(host: str) -> None:
    environ = {"OPENAI_API_KEY": "o", "OPENAI_BASE_URL": f"http://{host}:8642/v1"}
    with pytest.raises(BadConfiguration, match=r"OPENAI_BASE_URL: .* is this server.s own address"):
        load(given(environ=environ))
    environ["OPENAI_BASE_URL"] = f"http://{host}:8643/v1"
    load(given(environ=environ))
