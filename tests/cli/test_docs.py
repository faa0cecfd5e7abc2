"""The documents that are made from the code are as the code says."""

from pathlib import Path

from holdfast.cli.configuration_reference import reference

DOCS = Path(__file__).parent.parent.parent / "docs"


def test_the_configuration_reference_is_what_the_settings_say() -> None:
    """Made by: python -c 'from holdfast.cli.configuration_reference import reference; print(reference())'."""
    assert (DOCS / "configuration.md").read_text("utf-8").strip() == reference().strip()
