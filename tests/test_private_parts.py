"""Libraries of which we use parts that aren't public: their versions are bounded, and the parts are there.

When one of these fails after an upgrade, look at what changed in that part, adapt, and raise the bound.
"""

import inspect
import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
import uvicorn
from aiohttp import TCPConnector
from aiohttp.client_proto import ResponseHandler
from aiohttp.http_exceptions import ContentEncodingError
from aiohttp.http_writer import StreamWriter
from aiohttp.payload import Payload
from aiohttp.streams import StreamReader
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

ROOT = Path(__file__).parents[1]


def bound(name: str) -> tuple[int, ...]:
    """The version that the package doesn't reach, as pyproject.toml says."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    [line] = [line for line in project["dependencies"] if re.match(rf"{name}\b", line)]
    found = re.search(r"<([\d.]+)", line)
    assert found, f"{name} has no upper bound, and we use its private parts"
    return tuple(map(int, found[1].split(".")))


@pytest.mark.parametrize("name", ["aiohttp", "uvicorn"])
def test_a_package_with_private_parts_in_use_is_below_its_bound(name: str) -> None:
    installed = tuple(map(int, version(name).split(".")[:2]))
    assert installed < bound(name)


@pytest.mark.parametrize(
    "method",
    [
        "_start_asgi_task",
        "_unset_keepalive_if_required",
        "data_received",
        "on_url",
        "on_header",
        "on_message_begin",
        "on_headers_complete",
        "on_body",
        "on_message_complete",
        "on_response_complete",
        "pause_writing",
        "resume_writing",
        "send_400_response",
        "shutdown",
    ],
)
def test_the_protocol_of_uvicorn_has_what_server_transport_connection_overrides(method: str) -> None:
    assert inspect.isfunction(getattr(HttpToolsProtocol, method))


def test_the_cycle_of_uvicorn_has_what_server_transport_connection_reads() -> None:
    source = inspect.getsource(RequestResponseCycle.__init__)
    for name in ("body", "keep_alive", "response_complete", "scope"):
        assert f"self.{name}" in source


@pytest.mark.parametrize("method", ["capture_signals", "startup", "main_loop", "shutdown"])
def test_the_server_of_uvicorn_has_what_cli_local_overrides(method: str) -> None:
    assert inspect.isfunction(getattr(uvicorn.Server, method))
    assert {"connections", "tasks"} <= vars(ServerState()).keys()


def test_a_payload_of_aiohttp_keeps_value_and_size_where_models_upload_puts_them() -> None:
    assert "_size" in Payload.__annotations__
    assert "self._value = value" in inspect.getsource(Payload.__init__)
    assert isinstance(inspect.getattr_static(StreamWriter, "transport"), property)


def test_the_protocol_of_aiohttp_can_be_tapped_by_models_body() -> None:
    for method in ("data_received", "connection_lost", "eof_received", "pause_writing", "resume_writing"):
        assert callable(getattr(ResponseHandler, method))
    assert all(hasattr(StreamReader, name) for name in ("read_nowait", "at_eof", "total_bytes"))
    assert issubclass(ContentEncodingError, Exception)


def test_the_client_of_aiohttp_has_what_models_http_overrides() -> None:
    assert inspect.iscoroutinefunction(TCPConnector.connect)
    assert "await self._create_connection(req" in inspect.getsource(TCPConnector.connect)
    assert "self._factory = " in inspect.getsource(TCPConnector.__mro__[1].__init__)
    assert "self._reading_paused" in inspect.getsource(ResponseHandler.resume_reading)
    assert "self._payload = payload" in inspect.getsource(ResponseHandler.data_received)
    assert "self._buffer.append(data)" in inspect.getsource(StreamReader.feed_data)
