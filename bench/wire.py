"""What clients see of two checkouts, side by side: python bench/wire.py record|compare|data|open.

    record --checkout DIR --out FILE     play every scenario on an empty server, and write down each answer
    compare A B [--ignore-texts]         the differences of two records, by scenario; exit 1 if there are any
    data --checkout DIR --out FOLDER     a data directory in which a kill -9 left runs in the middle
    open --checkout DIR --data FOLDER    what a checkout makes of a copy of it, as JSON

A change of the code that must not change the wire is proven by records of before and after. The servers are
processes of `DIR/.venv/bin/python -m holdfast`; the model behind them is bench/wire_model.py, so that
nothing differs but the checkout. `record` fails if a documented route was not called.
"""

import argparse
import asyncio
import difflib
import json
import re
import sys
from pathlib import Path
from typing import Any

import aiohttp

from wire_bad import BAD, FAILING, GATED, OPEN, routes_of
from wire_data import opened, write_data
from wire_model import scripted_model
from wire_record import ADMIN, Book, Client, configure, serving, temporary
from wire_scenes import RUN_SCENES, Scene
from wire_scenes_api import API_SCENES

TEXTS = frozenset({"message", "description", "summary", "title", "hint"})
STAGES: dict[str, tuple[list[str], list[str], list[Scene]]] = {
    "keys": ([ADMIN], ["main"], [*RUN_SCENES, *API_SCENES, *BAD]),
    "failing": ([ADMIN], ["main"], FAILING),
    "gated": ([ADMIN], ["main"], GATED),
    "open": ([], ["main", "spare"], OPEN),
}
SHOWN_LINES_MAX = 40


async def record(checkout: Path, only: str) -> Book:
    """Every scenario, each stage on a server of its own."""
    book = Book()
    openapi: dict[str, Any] = {}
    for stage, (keys, targets, scenes) in STAGES.items():
        async with temporary() as folder, scripted_model() as model, aiohttp.ClientSession() as http:
            await asyncio.to_thread(configure, folder, model.url, keys=keys, targets=targets)
            async with serving(checkout, folder) as server:
                client = Client(server.url, http, folder, book)
                openapi = (await client.ask("GET", "/openapi.json")).json
                for scene in scenes:
                    if only and scene.__name__ not in only.split(","):
                        continue
                    book.begin(f"{stage}: {scene.__name__}", folder)
                    await scene(client, model)
                    print(scene.__name__, len(book.scenarios[f"{stage}: {scene.__name__}"]), file=sys.stderr)
    left = sorted(set(routes_of(openapi)) - book.called)
    assert only or not left, f"no scenario calls {', '.join(left)}"
    return book


def without_texts(value: Any, names: frozenset[str] = TEXTS) -> Any:
    """The value without what it says to people: the fields of these names, and the words of a page."""
    if isinstance(value, dict):
        pairs: list[tuple[str, Any]] = list(value.items())  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]
        page = "".join(value["text"]) if value.get("request") == "GET /docs" and "text" in value else ""  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
        made = {
            name: "<text>" if name in names and isinstance(one, str) else without_texts(one, names)
            for name, one in pairs
        }
        return made | ({"text": re.sub(r">[^<]+<", "><", page)} if page else {})
    return [without_texts(one, names) for one in value] if isinstance(value, list) else value  # pyright: ignore[reportUnknownVariableType]


def lines_of(entry: dict[str, Any]) -> list[str]:
    return json.dumps(entry, indent=1, ensure_ascii=False).split("\n")


def differences(a: list[dict[str, Any]], b: list[dict[str, Any]]) -> list[str]:
    """A short diff for each request whose answers differ."""
    told: list[str] = []
    names = [[f"{one['request']} {one.get('sent', '')}" for one in entries] for entries in (a, b)]
    matcher = difflib.SequenceMatcher(None, names[0], names[1], autojunk=False)
    for kind, a_from, a_to, b_from, b_to in matcher.get_opcodes():
        if kind != "equal":
            told += [f"- {name}" for name in names[0][a_from:a_to]] + [
                f"+ {name}" for name in names[1][b_from:b_to]
            ]
            continue
        for one, other in zip(a[a_from:a_to], b[b_from:b_to], strict=True):
            if lines_of(one) != lines_of(other):  # equal dicts may differ in the order of their names
                found = list(
                    difflib.unified_diff(lines_of(one), lines_of(other), "A", "B", n=2, lineterm="")
                )[2:]
                more = (
                    [f"  … {len(found) - SHOWN_LINES_MAX} more lines"] if len(found) > SHOWN_LINES_MAX else []
                )
                told += [f"  {one['request']}", *(f"    {line}" for line in found[:SHOWN_LINES_MAX]), *more]
    return told


def compare(a: dict[str, Any], b: dict[str, Any], ignored: frozenset[str]) -> int:
    """Print what differs, by scenario; how many scenarios differ."""
    if ignored:
        a, b = without_texts(a, ignored), without_texts(b, ignored)
    count = 0
    for name in dict.fromkeys([*a, *b]):
        told = differences(a.get(name, []), b.get(name, []))
        if told:
            count += 1
            print(f"== {name}", *told, sep="\n")
    print(
        f"{count} of {len(set(a) | set(b))} scenarios differ"
        if count
        else f"{len(a)} scenarios, no difference"
    )
    return count


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def main() -> None:
    """Read the options, do what they say."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = options.add_subparsers(dest="command", required=True)
    for name in ("record", "data", "open"):
        command = commands.add_parser(name)
        command.add_argument("--checkout", type=Path, required=True)
        command.add_argument("--out", type=Path, required=name != "open")
    commands.choices["record"].add_argument("--only", default="", help="names of scenarios, with commas")
    commands.choices["open"].add_argument("--data", type=Path, required=True)
    command = commands.add_parser("compare")
    command.add_argument("a", type=Path)
    command.add_argument("b", type=Path)
    command.add_argument("--ignore-texts", action="store_true", help=f"the fields {', '.join(sorted(TEXTS))}")
    command.add_argument("--ignore", default="", metavar="FIELDS", help="further fields, with commas")
    given = options.parse_args()
    match given.command:
        case "record":
            book = asyncio.run(record(given.checkout.resolve(), given.only))
            given.out.write_text(json.dumps(book.scenarios, indent=1, ensure_ascii=False), encoding="utf-8")
            answers = sum(map(len, book.scenarios.values()))
            print(f"{len(book.scenarios)} scenarios, {answers} answers, {len(book.called)} routes")
        case "compare":
            named: list[str] = [name for name in given.ignore.split(",") if name]
            ignored = frozenset(named) | (TEXTS if given.ignore_texts else frozenset[str]())
            sys.exit(bool(compare(read(given.a), read(given.b), ignored)))
        case "data":
            asyncio.run(write_data(given.checkout.resolve(), given.out.resolve()))
        case _:
            summary = json.dumps(
                asyncio.run(opened(given.checkout.resolve(), given.data.resolve())), indent=1
            )
            print(summary)
            if given.out:
                given.out.write_text(summary + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
