"""Skills that we write and accept, beside the reference checker of the open format."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from skills_ref import read_properties, validate  # pyright: ignore[reportMissingTypeStubs]

from holdfast.features.skills.folders import BadSkill, parse_skill, skill_file
from holdfast.tools.files.yaml_text import is_plain_name

NAMES = st.from_regex(r"[a-z0-9]+(-[a-z0-9]+)*", fullmatch=True).filter(is_plain_name)
TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=200).filter(
    lambda text: bool(text.strip())
)


def is_accepted(text: str) -> bool:
    try:
        parse_skill(text)
    except BadSkill:
        return False
    return True


def put(root: Path, name: str, text: str) -> Path:
    folder = root / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "SKILL.md").write_text(text, "utf-8")
    return folder


@given(name=NAMES, description=TEXTS, body=TEXTS)
def test_the_reference_accepts_what_we_write_and_reads_the_same(
    tmp_path_factory: pytest.TempPathFactory, name: str, description: str, body: str
) -> None:
    text = skill_file(name, description, body)
    folder = put(tmp_path_factory.mktemp("skills"), name, text)
    assert validate(folder) == []
    ours, theirs = parse_skill(text), read_properties(folder)
    assert (ours.name, ours.description) == (theirs.name, theirs.description)


FRONTS = {
    "a-b": "name: a-b\ndescription: x",
    "full": (
        "name: full\ndescription: Fill in forms.\nlicense: MIT\ncompatibility: needs qpdf\n"
        "allowed-tools: Bash(git:*) Read\nmetadata:\n  author: ann\n  version: 1.0"
    ),
    "on": "name: on\ndescription: yes",
    "2024-01-01": "name: 2024-01-01\ndescription: 1e3",
    "folded": "name: folded\ndescription: >\n  two\n  lines",
    "quoted": "name: 'quoted'\ndescription: \"a: b # c\"",
    "none": "description: x",
    "empty": "name: empty\ndescription:",
    "Upper": "name: Upper\ndescription: x",
    "-a": "name: -a\ndescription: x",
    "a--b": "name: a--b\ndescription: x",
    "a_b": "name: a_b\ndescription: x",
    "x" * 65: f"name: {'x' * 65}\ndescription: x",
    "long": f"name: long\ndescription: {'x' * 1025}",
    "list": "- a",
    "alias": "name: &a alias\ndescription: *a",
    "broken": "name: [",
}


def test_we_accept_what_the_reference_accepts_and_refuse_what_it_refuses(tmp_path: Path) -> None:
    for name, front in FRONTS.items():
        text = f"---\n{front}\n---\n\nDo it.\n"
        folder = put(tmp_path, name, text)
        assert is_accepted(text) == (validate(folder) == []), name
        if is_accepted(text):
            ours, theirs = parse_skill(text), read_properties(folder)
            assert (ours.name, ours.description) == (theirs.name, theirs.description)
            mine = (ours.licence or None, ours.allowed_tools or None)
            assert mine == (theirs.license, theirs.allowed_tools), name
            assert ours.metadata == (theirs.metadata or {}), name


@pytest.mark.parametrize(
    ("name", "front"),
    [
        ("other-folder", "name: mine\ndescription: x"),
        ("more", "name: more\ndescription: x\nversion: 1.2"),
        ("long", f"name: long\ndescription: x\ncompatibility: {'x' * 501}"),
        ("flow", "name: flow\ndescription: x\nallowed-tools: [Read, Write]"),
    ],
    ids=["another folder name", "other fields", "long compatibility", "a list in brackets"],
)
def test_we_also_take_what_other_agents_write_though_the_reference_wants_it_stricter(
    name: str, front: str, tmp_path: Path
) -> None:
    text = f"---\n{front}\n---\n\nDo it.\n"
    assert validate(put(tmp_path, name, text)) != []
    assert is_accepted(text)


def test_we_refuse_letters_that_look_like_others_though_the_reference_takes_them(tmp_path: Path) -> None:
    text = "---\nname: d\u0435ploy\ndescription: x\n---\n\nDo it.\n"  # a Cyrillic letter
    assert validate(put(tmp_path, "d\u0435ploy", text)) == []
    assert not is_accepted(text)
