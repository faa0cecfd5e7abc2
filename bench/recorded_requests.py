"""Requests of real clients as tests keep them: shortened, without keys and names of this machine."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from client_scene import RawRequest

KEPT_HEADERS = (
    "anthropic-",
    "content-encoding",
    "content-type",
    "openai-",
    "originator",
    "session",
    "thread",
    "user-agent",
    "x-codex-",
    "x-holdfast-",
    "x-openwebui-",
    "x-stainless-",
)
STRING_CHARS_MAX = 120
TOOLS_MAX = 3
REQUESTS_MAX = 8
_HOME = re.compile(r"/root(?![\w-])")  # a home folder, and how Codex calls its first agent
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')


def written(file: Path, name: str, requests: Sequence[RawRequest], names: Mapping[str, str]) -> None:
    """Put the model requests of one client into the file; `names` are replaced everywhere."""
    asked = [request for request in requests if request.line.startswith("POST") and request.body]
    if not asked:
        return
    known: dict[str, list[dict[str, object]]] = json.loads(file.read_text()) if file.exists() else {}
    known[name] = [recorded(request, names) for request in _different(asked)[:REQUESTS_MAX]]
    file.write_text(json.dumps(dict(sorted(known.items())), indent=1, ensure_ascii=False) + "\n")


def _different(requests: Sequence[RawRequest]) -> list[RawRequest]:
    """The requests without those that only repeat one before."""
    return [one for at, one in enumerate(requests) if one.body not in {other.body for other in requests[:at]}]


def recorded(request: RawRequest, names: Mapping[str, str]) -> dict[str, object]:
    """One request: its path, the headers that a relay passes on, and its body as text."""
    kept = {name: value for name, value in request.headers.items() if name.startswith(KEPT_HEADERS)}
    body = shortened(request.body).decode()
    data = json.dumps({"path": request.path, "headers": kept, "body": body}, ensure_ascii=False)
    for name, instead in sorted(names.items(), key=lambda pair: -len(pair[0])):
        data = data.replace(name, instead)
    return json.loads(_HOME.sub("/home/you", data))


def shortened(body: bytes) -> bytes:
    """The body with long strings cut and most tools left out; every other byte is the client's own."""
    return _STRING.sub(_cut, _fewer_tools(body))


def _cut(found: "re.Match[bytes]") -> bytes:
    whole = found[0]
    if len(whole) <= STRING_CHARS_MAX:
        return whole
    kept = whole[:STRING_CHARS_MAX].decode("utf-8", "ignore")
    for length in range(len(kept), len(kept) - 12, -1):  # not inside an escape, nor between its surrogates
        try:
            json.loads(kept[:length] + '"').encode()
        except ValueError:
            continue
        return (kept[:length] + '"').encode()
    return b'""'


def _fewer_tools(body: bytes) -> bytes:
    text = body.decode()
    decoder = json.JSONDecoder()
    for found in reversed(list(re.finditer(r'"tools"\s*:\s*\[\s*(?=\{)', text))):
        at, ends = found.end(), list[int]()
        while text[at] == "{":
            _, at = decoder.raw_decode(text, at)
            ends.append(at)
            while text[at] in " \n,":
                at += 1
        if len(ends) > TOOLS_MAX:
            text = text[: ends[TOOLS_MAX - 1]] + text[ends[-1] :]
    return text.encode()
