"""Print a release's section of the changelog, with links that work outside of the repository."""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))


def release_notes(changelog: str, version: str) -> str:
    """Return the text below the version's heading, up to the next version."""
    heading = rf"^## \[{re.escape(version)}\][^\n]*\n"
    found = re.search(rf"{heading}(.*?)(?=^## \[|\Z)", changelog, re.MULTILINE | re.DOTALL)
    if found is None:
        sys.exit(f"CHANGELOG.md has no section for {version}")
    return found[1].strip()


def main(version: str) -> None:
    """Write the notes to standard output."""
    from hatch_build import absolute_links  # the same links as in the package's description

    source = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["urls"]["Source"]
    notes = release_notes((ROOT / "CHANGELOG.md").read_text("utf-8"), version)
    print(absolute_links(notes, f"{source}/blob/v{version}/"))


if __name__ == "__main__":
    main(sys.argv[1])
