"""The documentation site: every page, its links, the search and the texts for language models."""

import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from docs.reading import DOCS, ROOT, links


def builder() -> ModuleType:
    """scripts/site/build.py."""
    spec = importlib.util.spec_from_file_location("site_build", ROOT / "scripts" / "site" / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    assert builder().build(folder) == len(list(DOCS.rglob("*.md")))
    return folder


def test_every_link_of_the_site_leads_to_a_file_and_an_anchor_of_it(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    texts = {page: page.read_text("utf-8") for page in pages}
    ids = {page: set(re.findall(r' id="([^"]*)"', text)) for page, text in texts.items()}
    assert len(pages) > 60
    for page, text in texts.items():
        for link in re.findall(r'(?:href|src)="([^"]*)"', text):
            if "://" in link or link.startswith("mailto:"):
                continue
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            assert target.is_file(), f"{page.name}: {link}"
            assert not anchor or anchor in ids[target], f"{page.name}: {link}"


def test_the_site_needs_no_network(site: Path) -> None:
    for page in site.rglob("*.html"):
        loaded = re.findall(r'<(?:script|link|img)[^>]*(?:src|href)="([^"]*)"', page.read_text("utf-8"))
        assert [link for link in loaded if "://" in link] == []
    assert "url(" not in (site / "site.css").read_text("utf-8")


def test_the_search_finds_a_section_by_its_words(site: Path) -> None:
    text = (site / "search-index.js").read_text("utf-8")
    sections = json.loads(text.removeprefix("window.PAGES = ").removesuffix(";\n"))
    found = [one["u"] for one in sections if "pairing code" in one["t"].lower()]
    assert any(address.startswith("channels.html#") for address in found)
    assert all((site / one["u"].partition("#")[0]).is_file() for one in sections)


def test_language_models_get_an_index_and_all_pages_as_markdown(site: Path) -> None:
    index = (site / "llms.txt").read_text("utf-8")
    assert index.startswith("# Holdfast\n\n> ")
    named = links(site / "llms.txt")
    assert len(named) > 50
    whole = (site / "llms-full.txt").read_text("utf-8")
    for name in named:
        page = (site / name).read_text("utf-8")
        assert page.strip() in whole
        assert page == (DOCS / name).read_text("utf-8")


@pytest.mark.parametrize("link", ["absent.md", "other.md#absent", "#absent", "absent.png", "../absent.md"])
def test_a_link_that_leads_nowhere_stops_the_build(link: str, tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    index = f"# Index\n\n| | |\n| --- | --- |\n| [Other](other.md) | words |\n\n[here]({link})\n"
    for name, text in {"README.md": index, "other.md": "# Other\n", "http.md": "# HTTP\n"}.items():
        (docs / name).write_text(text)
    module = builder()
    with pytest.raises(module.BrokenLinks, match=re.escape(link)):
        module.build(tmp_path / "site", docs)
    assert not (tmp_path / "site").exists()
