"""What bench/wire.py writes down: one server process, its answers, and what of them is the same in each run.

Values are normalised, names and their order never. Numbers after `#` are given in the order of appearance
within a scenario, so that the same id is the same number in all answers of the scenario.
"""

import asyncio
import hashlib
import json
import re
import shutil
import tempfile
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

ADMIN = "key-of-the-admin-0123456789"
CONFIG = """
[server]
port = 0
data_dir = "{folder}/data"
api_keys = {keys}
drain_s = 0
[agent]
workspace = "{work}"
"""
TARGET = """
[[targets]]
name = "{name}"
wire = "chat"
base_url = "{url}"
model = "{name}-model"
[targets.retry]
backoff_base_s = 0
backoff_max_s = 0
unreachable_s = 1
"""
SECRETS = frozenset({"page", "token", "ticket", "secret", "key"})
LENGTHS = frozenset(  # how long something took, and what the machine has
    {
        "ms", "duration", "first_event_s", "event_loop_lag_ms", "event_loop_lag_worst_ms", "free_bytes",
        "bytes_free", "total_bytes", "used", "open", "max", "db_bytes", "wal_bytes", "uptime_s", "pid",
        "write_ms", "bytes[]", "gated_ms", "silent_ms",
    }
)  # fmt: skip
SKIPPED_HEADERS = frozenset(
    {"date", "content-length", "server", "connection", "transfer-encoding", "keep-alive"}
)
HEX = re.compile(r"[0-9a-f]{16,64}|(?<=job-)[0-9a-f]{8}")
TOKEN = re.compile(r"(?<![\w-])(?:hf-)?[\w-]{43}(?![\w-])")
MOMENT = re.compile(r"(?<!\d)1[789]\d{11}(?!\d)")
SECONDS = re.compile(r"\b\d+(\.\d+)?(?= s\b)")
PORT = re.compile(r"(?<=127\.0\.0\.1:)\d+|(?<=holdfast_sign_in_)\d+")
DELTAS = {
    "message.delta": "delta", "reasoning.delta": "delta", "text.delta": "text", "tool.output": "text",
    "assistant.delta": "delta", "response.output_text.delta": "delta",
}  # fmt: skip
TIMED = frozenset({"tool.ended", "attempt.failed"})  # they leave out a time of less than a millisecond
WAIT_S = 30


@dataclass
class Names:
    """Stable stand-ins for what differs between two runs of the same program."""

    folder: str = ""
    is_numbered: bool = True
    known: dict[str, str] = field(default_factory=dict[str, str])

    def text(self, text: str) -> str:
        """The text with its ids, ports and paths replaced."""
        if self.folder:
            text = text.replace(self.folder, "<folder>")
        text = TOKEN.sub(lambda found: self.secret(found[0]), text)
        text = HEX.sub(lambda found: self._named(found[0], "#"), text)
        return PORT.sub("<port>", MOMENT.sub("<ms>", SECONDS.sub("<n>", text)))

    def secret(self, text: str) -> str:
        """The stand-in for a secret, the same wherever it appears in the scenario."""
        return self._named(text, "<secret>") if text else text

    def _named(self, found: str, mark: str) -> str:
        if not self.is_numbered:
            return mark
        return self.known.setdefault(found, f"{mark}{len(self.known) + 1}")

    def value(self, value: Any, key: str = "") -> Any:
        """Any JSON value; the names in it and their order stay."""
        match value:
            case dict():
                if str(value.get("type")) in TIMED:  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
                    value.setdefault("ms", 0)  # pyright: ignore[reportUnknownMemberType]
                return {self.text(name): self.value(one, name) for name, one in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
            case list():
                return [self.value(one, f"{key}[]") for one in value]  # pyright: ignore[reportUnknownVariableType]
            case str():
                return self.secret(value) if key in SECRETS and len(value) > 20 else self.text(value)
            case bool() | None:
                return value
            case int() | float():
                return self._number(value, key)
            case _:
                return value

    def _number(self, value: float, key: str) -> Any:
        kind = type(value).__name__
        if 1.6e12 < value < 2.5e12:
            return f"<ms {kind}>"
        if 1.75e9 < value < 2.5e9:
            return f"<time {kind}>"
        return f"<{key} {kind}>" if key in LENGTHS else value


def no_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose names are told apart."""
    made = dict(pairs)
    assert len(made) == len(pairs), f"a name appears twice: {[name for name, _ in pairs]}"
    return made


def decoded(raw: bytes) -> tuple[Any, bool]:
    """The JSON value, and whether it was written without needless spaces and escapes."""
    value = json.loads(raw, object_pairs_hook=no_doubles)
    compact = re.sub(rb"(?<=[0-9])[eE][+-]?\d+", b"", raw)
    return value, b'": ' not in compact and b"\n" not in raw and b"\\u00" not in raw


@dataclass
class Frame:
    """One server-sent event: its lines' names, its id, its name, its data."""

    lines: list[str]
    id: str
    event: str
    data: Any

    @property
    def name(self) -> str:
        """What it tells, wherever that stands."""
        if isinstance(self.data, str | list):
            return self.event
        return str(self.data.get("event") or self.data.get("type") or self.event)

    def shown(self, names: Names) -> dict[str, Any]:
        """As it is recorded."""
        data = self.data if isinstance(self.data, str) else names.value(self.data)
        return {"lines": self.lines, "id": names.text(self.id), "event": self.event, "data": data}


def frame_of(block: bytes) -> Frame | None:
    """The frame in the lines between two empty ones; None for a keepalive."""
    lines = [line.partition(": ") for line in block.decode().split("\n") if line]
    kinds = [name for name, _, _ in lines]
    if all(kind == "" for kind in kinds):
        text = lines[0][2] if lines else "keepalive"
        return None if text == "keepalive" else Frame(["comment"], "", "", text)
    found = {name: value for name, _, value in lines}
    raw = found.get("data", "")
    data = json.loads(raw, object_pairs_hook=no_doubles) if raw[:1] in {"{", "["} and raw != "[DONE]" else raw
    return Frame(kinds, found.get("id", ""), found.get("event", ""), data)


def is_live_line(frame: Frame) -> bool:
    """Whether it is a word about a silence, which only comes to whoever waits long enough."""
    return frame.name == "live" and not frame.id


def joined(frames: list[Frame]) -> list[Frame]:
    """Deltas of one kind in a row as one: into how many pieces a text falls is a matter of time."""
    made: list[Frame] = []
    for frame in frames:
        field_name = DELTAS.get(frame.name)
        if made and field_name and made[-1].name == frame.name and made[-1].data.keys() == frame.data.keys():
            text = made[-1].data[field_name] + frame.data[field_name]
            made[-1] = Frame(frame.lines, frame.id, frame.event, {**frame.data, field_name: text})
        else:
            made.append(frame)
    return made


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    frames: list[Frame]

    @property
    def json(self) -> Any:
        """The body."""
        return json.loads(self.body)


class Client:
    """Asks one server, and writes down what it answers under the scenario that is played."""

    def __init__(self, url: str, http: aiohttp.ClientSession, folder: Path, book: "Book") -> None:
        self.url = url
        self.http = http
        self.folder = folder
        self.book = book
        self.auth: dict[str, str] = {"Authorization": f"Bearer {ADMIN}"}

    async def call(
        self,
        route: str,
        body: Any = None,
        *,
        query: str = "",
        headers: Mapping[str, str] | None = None,
        until: Callable[[Frame], bool] | None = None,
        ids: Mapping[str, str] | None = None,
        **named: str,
    ) -> Answer:
        """One request by the name of its route, recorded; an endless stream is left at the frame `until`."""
        self.book.called.add(route)
        method, _, path = route.partition(" ")
        target = path.format(**(ids or {}), **named) + query
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        sent = self.auth if headers is None else headers
        answer = await self.ask(method, target, data=data, headers=sent, until=until)
        self.book.add(f"{method} {target}", data, sent, answer)
        return answer

    async def ask(
        self,
        method: str,
        target: str,
        *,
        data: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        until: Callable[[Frame], bool] | None = None,
    ) -> Answer:
        """One request that is not recorded."""
        async with (
            asyncio.timeout(WAIT_S),
            self.http.request(
                method,
                self.url + target,
                data=data,
                headers=self.auth if headers is None else headers,
                allow_redirects=False,
                skip_auto_headers=["Content-Type"],
            ) as answer,
        ):
            if not answer.headers.get("content-type", "").startswith("text/event-stream"):
                return Answer(answer.status, answer.headers, await answer.read(), [])
            frames = [frame async for frame in _frames(answer.content, until)]
            return Answer(answer.status, answer.headers, b"", frames)

    async def until_status(self, run_id: str, *wanted: str) -> dict[str, Any]:
        """Wait until the run stands so."""
        async with asyncio.timeout(WAIT_S):
            while True:
                shown = (await self.ask("GET", f"/v1/runs/{run_id}")).json
                if shown["status"] in wanted:
                    return shown
                await asyncio.sleep(0.02)

    async def ended(self, run_id: str) -> dict[str, Any]:
        """Wait for the run's end."""
        return await self.until_status(run_id, "completed", "failed", "cancelled", "interrupted")

    async def seen(self, session_id: str, kind: str, count: int = 1) -> dict[str, Any]:
        """Wait until the session's log holds so many events of the kind; the last of them."""
        left = count

        def last(frame: Frame) -> bool:
            nonlocal left
            left -= frame.name == kind
            return left == 0

        answer = await self.ask("GET", f"/api/sessions/{session_id}/events", until=last)
        return answer.frames[-1].data

    async def start(self, text: str, **fields: Any) -> tuple[str, str]:
        """Start a run, recorded: its id and its session's."""
        made = (await self.call("POST /v1/runs", {"input": text, **fields})).json
        return made["run_id"], made["session_id"]


async def _frames(
    content: aiohttp.StreamReader, until: Callable[[Frame], bool] | None
) -> AsyncGenerator[Frame]:
    rest = b""
    while piece := await content.readany():
        *blocks, rest = (rest + piece).split(b"\n\n")
        for frame in filter(None, map(frame_of, blocks)):
            if is_live_line(frame):
                continue
            yield frame
            if until is not None and until(frame):
                return
    assert not rest.strip(), rest


class Book:
    """All that was recorded: scenarios by name, each a list of requests with their answers."""

    def __init__(self) -> None:
        self.scenarios: dict[str, list[dict[str, Any]]] = {}
        self.called: set[str] = set()
        self.keys: dict[str, str] = {}  # those that a scenario made for later ones, by their names
        self.names = Names()
        self._note = ""
        self._entries: list[dict[str, Any]] = []

    def begin(self, scenario: str, folder: Path) -> None:
        """What follows belongs to this scenario, and its ids are numbered anew."""
        assert scenario not in self.scenarios, scenario
        self.names = Names(str(folder))
        self._entries = self.scenarios[scenario] = []

    def note(self, text: str) -> None:
        """Say of the next request what it does not show."""
        self._note = text

    def add(self, request: str, data: bytes | None, sent: Mapping[str, str], answer: Answer) -> None:
        """Write down one answer."""
        names = self.names
        said = {name: value for name, value in sent.items() if name != "Authorization"}
        entry: dict[str, Any] = {"request": f"{names.text(request)} {self._note}".rstrip()}
        self._note = ""
        if data is not None:
            entry["sent"] = names.text(data[:300].decode("utf-8", "replace"))
        if said:
            entry["sent_headers"] = {
                name: names.text(value) for name, value in said.items() if name != "Cookie"
            }
        entry["status"] = answer.status
        entry["headers"] = self._headers(answer.headers)
        entry.update(self._body(answer))
        self._entries.append(entry)

    def _headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        kept: dict[str, str] = {}
        for name, value in sorted((name.lower(), value) for name, value in headers.items()):
            if name not in SKIPPED_HEADERS:
                kept[name] = self.names.text(header_value(name, value))
        return kept

    def _body(self, answer: Answer) -> dict[str, Any]:
        names, kind = self.names, answer.headers.get("content-type", "")
        if kind.startswith("text/event-stream"):
            return {"frames": [frame.shown(names) for frame in joined(answer.frames)]}
        if not answer.body:
            return {}
        if kind.startswith("application/json"):
            value, is_compact = decoded(answer.body)
            return {"compact": is_compact, "json": names.value(value)}
        if "version=0.0.4" in kind or "openmetrics" in kind or answer.body.startswith(b"# HELP"):
            return {"metrics": metric_names(answer.body.decode())}
        if kind.startswith("text/"):
            return {"text": times_out(names.text(answer.body.decode())).split("\n")}
        return {"bytes": len(answer.body), "sha256": hashlib.sha256(answer.body).hexdigest()[:12]}


def header_value(name: str, value: str) -> str:
    """The value without what is a matter of chance."""
    match name:
        case "etag":
            return "<etag>"
        case "set-cookie":
            return re.sub(r"=[^;\"]{20,};", "=<secret>;", re.sub(r"expires=[^;]*", "expires=<date>", value))
        case "allow":
            return ", ".join(sorted(value.split(", ")))
        case _:
            return value


def times_out(text: str) -> str:
    """A text for people without its dates."""
    text = re.sub(r"\b20\d\d-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?( ?UTC|Z)?", "<date>", text)
    return re.sub(r"\b\d+(\.\d+)? ?(ms|s)\b", "<time>", text)


def metric_names(text: str) -> list[str]:
    """The names, kinds and labels of the figures, without the figures."""
    kept = [
        line if line.startswith("# TYPE") else line.rpartition(" ")[0] for line in text.splitlines() if line
    ]
    return sorted({PORT.sub("<port>", line) for line in kept if not line.startswith("# HELP")})


def configure(
    folder: Path, model_url: str, *, keys: list[str], targets: list[str], work: Path | None = None
) -> None:
    """Write a configuration, and make the folder to work in."""
    work = work or folder / "work"
    work.mkdir(parents=True, exist_ok=True)
    (work / "note.txt").write_text("a note\n", encoding="utf-8")
    text = CONFIG.format(folder=folder, work=work, keys=json.dumps(keys))
    text += "".join(TARGET.format(name=name, url=model_url) for name in targets)
    config = folder / "holdfast.toml"
    config.write_text(text, encoding="utf-8")
    config.chmod(0o600)


@asynccontextmanager
async def temporary() -> AsyncGenerator[Path]:
    """A folder that is gone afterwards; its name is always of the same length."""
    folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="wire"))
    try:
        yield folder
    finally:
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


@dataclass(frozen=True)
class Serving:
    """A started server."""

    process: asyncio.subprocess.Process
    url: str


@asynccontextmanager
async def serving(checkout: Path, folder: Path) -> AsyncGenerator[Serving]:
    """A checkout's server on the folder's configuration; killed at the end, if it still lives."""
    python = checkout / ".venv" / "bin" / "python"
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "LANG": "C.UTF-8", "TZ": "UTC"}
    process = await asyncio.create_subprocess_exec(
        *(str(python), "-m", "holdfast", "serve", "--config", str(folder / "holdfast.toml")),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        cwd=folder,
        env=environment,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(WAIT_S):
            greeting = (await process.stdout.readline()).decode()
        found = re.search(r"http://[\d.]+:\d+", greeting)
        assert found, f"the server of {checkout} did not start; see {folder}/data/holdfast.log: {greeting!r}"
        yield Serving(process, found[0])
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
