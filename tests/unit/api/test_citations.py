"""Each page and heading that code or another page refers to exists."""

import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.unit.api.crds import ROOT

SOURCES = ("operator", "runtime", "tests", "charts", "Makefile")
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
CITATION = re.compile(r"\bdocs/[\w/-]+\.md(?:#[\w-]+)?")
UNRESOLVED = re.compile(r"\s\((?:DESIGN|CONTROL|RUNTIME)[,)]|\b(?:DESIGN|CONTROL|RUNTIME)\.md\b")
LINK = re.compile(r"\]\(([^)\s]+)\)")
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
THIS = Path(__file__).relative_to(ROOT).as_posix()
EARLIER = "tests/integration/api/earlier/"
"""Copies of what was released, with the citations of then."""


def slug(heading: str) -> str:
    """Return a heading's anchor as GitHub makes it."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


@cache
def anchors(page: Path) -> frozenset[str]:
    """Return the anchors of a page's headings."""
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    return frozenset(slug(heading) for heading in re.findall(r"^#+ +(.+)$", text, re.MULTILINE))


def resolves(reference: str, folder: Path) -> bool:
    """Return whether `page.md#anchor`, relative to a folder, names a page and one of its headings."""
    name, _, anchor = reference.partition("#")
    page = folder / name
    return page.exists() and (not anchor or anchor in anchors(page.resolve()))


def sources() -> Iterator[tuple[str, str]]:
    """Yield path and text of each tracked source file."""
    listed = subprocess.run(
        ("git", "ls-files", *SOURCES), cwd=ROOT, check=True, capture_output=True, text=True
    )
    for name in listed.stdout.splitlines():
        if name != THIS and not name.startswith(EARLIER) and (ROOT / name).is_file():
            yield name, (ROOT / name).read_text(encoding="utf-8", errors="replace")


def test_an_anchor_is_made_as_github_makes_it() -> None:
    assert slug("Data: what `a.b` says, & [more](x.md)") == "data-what-ab-says--more"


def test_a_missing_page_or_heading_does_not_resolve() -> None:
    assert resolves("docs/design/design.md#layers", ROOT)
    assert not resolves("docs/design/design.md#no-such-heading", ROOT)
    assert not resolves("docs/design/none.md", ROOT)


def test_every_citation_in_the_code_names_a_page_and_a_heading() -> None:
    cited = [(name, citation) for name, text in sources() for citation in CITATION.findall(text)]
    assert len([citation for _, citation in cited if "/design/" in citation]) > 60
    assert [each for each in cited if not resolves(each[1], ROOT)] == []


def test_no_citation_names_a_document_outside_the_repository() -> None:
    assert [name for name, text in sources() if UNRESOLVED.search(text)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_of_a_page_names_a_page_and_a_heading(page: Path) -> None:
    links = LINK.findall(FENCED.sub("", page.read_text(encoding="utf-8")))
    local = [link for link in links if not link.startswith(("http", "mailto:"))]
    targets = [page.name + link if link.startswith("#") else link for link in local]
    assert [target for target in targets if not resolves(target, page.parent)] == []
