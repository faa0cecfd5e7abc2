"""The references are as the code says, the promises as they are promised, and every link leads somewhere."""

import re
from pathlib import Path
from xml.etree import ElementTree as ET

from docs.reading import DOCS, DOCUMENTS, ROOT, anchors, blocks, generator, links
from holdfast.chaos import ChaosServer
from holdfast.config.load import ConfigFile, ConfigInputs, load
from holdfast.config.secret_values import TextFile
from promises import PROMISES
from serving import served, target_of

_NAMES = ("MAIN_API_KEY", "TRACKER_KEY", "TRACKER_CLIENT_SECRET")
_TOKENS = (
    "TELEGRAM_BOT_TOKEN",
    "SLACK_BOT_TOKEN",
    "SLACK_APP_TOKEN",
    "SLACK_SIGNING_SECRET",
    "DISCORD_BOT_TOKEN",
    "BRIDGE_SECRET",
    "MAIL_PASSWORD",
    "MATRIX_TOKEN",
)
_POOLS = {"FIRST_KEY": "k1", "SECOND_KEY": "k2"}
ENVIRON = {"HOME": "/h"} | _POOLS | dict.fromkeys((*_NAMES, *_TOKENS, "S3_KEY_ID", "S3_SECRET_KEY"), "k" * 32)
DECISION_LINES_MAX = 18
ROW = re.compile(r"^\| (P\d+) \| (.+?) \| (.+?) \|$", re.MULTILINE)


def test_what_is_made_from_the_code_is_fresh() -> None:
    stale = generator().stale()
    assert not stale, f"run: python scripts/docs.py ({', '.join(stale)})"


async def test_every_route_of_the_server_is_described() -> None:
    texts = [page.read_text("utf-8") for page in (DOCS / "http").glob("*.md")]
    documented = {route for text in texts for route in re.findall(r"^## ([A-Z]+ /\S*)", text, re.MULTILINE)}
    async with ChaosServer() as chaos, served(target_of(chaos)) as server:
        _, document = await server.get("/openapi.json")
    paths = document["paths"].items()
    assert documented == {f"{method.upper()} {path}" for path, methods in paths for method in methods}


def test_every_promise_is_told_as_it_is_promised_and_names_tests_that_name_it() -> None:
    text = (DOCS / "guarantees.md").read_text("utf-8")
    rows = {id_: (said, where) for id_, said, where in ROW.findall(text)}
    assert {id_: said for id_, (said, _) in rows.items()} == dict(PROMISES)
    for id_, (_, where) in rows.items():
        assert f"- **{id_}.**" in text
        for name in re.findall(r"`([^`]+)`", where):
            assert re.search(rf"\b{id_}\b", (ROOT / name).read_text("utf-8")), f"{name} does not name {id_}"


def _leads_somewhere(document: Path, link: str) -> bool:
    name, _, anchor = link.partition("#")
    target = (document.parent / name) if name else document
    return target.exists() and (not anchor or anchor in anchors(target))


def test_every_link_leads_somewhere() -> None:
    found = [
        (document.relative_to(ROOT).as_posix(), document, link)
        for document in DOCUMENTS
        for link in links(document)
    ]
    assert found
    assert [(name, link) for name, document, link in found if not _leads_somewhere(document, link)] == []


def test_each_index_names_every_document_of_its_folder() -> None:
    for folder in (DOCS, DOCS / "decisions"):
        listed = links(folder / "README.md")
        assert [path.name for path in folder.glob("*.md") if path.name not in {*listed, "README.md"}] == []


def test_every_decision_has_a_context_a_choice_and_a_price_in_few_lines() -> None:
    texts = [path.read_text("utf-8") for path in (DOCS / "decisions").glob("*.md")]
    for decision in (decision for text in texts for decision in text.split("\n## ")[1:]):
        heading, *lines = decision.rstrip().splitlines()
        parts = re.findall(r"^\*\*(\w+)\.\*\* ", decision, re.MULTILINE)
        assert parts == ["Context", "Choice", "Price"], heading
        assert len(lines) <= DECISION_LINES_MAX, heading


def test_every_configuration_that_is_shown_is_one() -> None:
    shown = [text for document in DOCUMENTS for text in blocks(document, "toml")]
    assert shown
    for text in shown:
        file = ConfigFile(Path("/etc/holdfast/holdfast.toml"), text)
        load(ConfigInputs(environ=ENVIRON, file=file, read=lambda _: TextFile("x" * 20)))


def test_every_file_that_the_guide_to_the_tests_names_is_there() -> None:
    tests = ROOT / "tests"
    named = re.findall(r"`([\w/*]+/?[\w*]+\.(?:py|md|jsonl))\b", (tests / "README.md").read_text("utf-8"))
    places = (ROOT, ROOT / "src" / "holdfast", tests, tests / "sabotage")
    assert len(named) > 20
    assert [name for name in named if not any(list(place.glob(name)) for place in places)] == []


def test_the_recording_is_one_of_a_killed_program_that_continues() -> None:
    """`scripts/recording.py` makes it from a real terminal. It has no script, and loads nothing."""
    image = ET.fromstring((DOCS / "images" / "recording.svg").read_text("utf-8"))  # noqa: S314  # ours
    frames = ["".join(frame.itertext()) for frame in image.iter("{http://www.w3.org/2000/svg}g")]
    assert {element.tag.rpartition("}")[2] for element in image.iter()} <= {
        "svg",
        "rect",
        "style",
        "g",
        "text",
        "tspan",
    }
    killed = next(nth for nth, frame in enumerate(frames) if "Killed" in frame)
    assert "10…" in frames[killed]
    assert "20…" not in frames[killed]
    assert "20…" in frames[-1]
