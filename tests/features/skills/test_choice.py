"""Which of many skills the model is told about."""

from holdfast.features.skills.choice import (
    BYTES_SHOWN_MAX,
    SKILLS_SHOWN_MAX,
    chosen,
    line_of,
    ranked,
)


def test_few_skills_are_all_shown_in_order() -> None:
    assert chosen({"b": "second", "a": "first"}, "anything") == ["a", "b"]
    assert line_of("a", "two\n words") == "- a: two words"


def test_of_five_hundred_the_fitting_one_is_shown_and_the_bounds_hold() -> None:
    skills = {f"skill-{nth}": f"Do the work of kind {nth} for the team" for nth in range(500)}
    skills["release-notes"] = "Write the notes for a new release from the git history"
    skills["tax-return"] = "Fill in a tax return"
    for message, wanted in (
        ("please write release notes for 2.0", "release-notes"),
        ("can you do my taxes?", "tax-return"),
        ("work of kind 377", "skill-377"),
    ):
        names = chosen(skills, message)
        assert wanted in names
        assert len(names) == SKILLS_SHOWN_MAX
        assert sum(len(line_of(name, skills[name]).encode()) + 1 for name in names) <= BYTES_SHOWN_MAX


def test_long_descriptions_stay_within_the_bytes() -> None:
    skills = {f"s{nth}": "ü" * 1_000 for nth in range(40)}
    names = chosen(skills, "")
    assert 0 < len(names) < 40
    assert len(ranked(skills, "")) == 40
