"""The site of docs/ has every page, in five sections of the sizes that readers of each have time for."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
SITE: dict[str, Any] = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))[
    "project"
]
SHORT = ("tutorials", "how-to", "concepts")
MAX_WORDS = 1500
HIDDEN = re.compile(r"<!--.*?-->", re.DOTALL)


def listed(navigation: Any) -> Iterator[str]:
    """Yield the pages of a navigation in order."""
    if isinstance(navigation, str):
        yield navigation
    else:
        parts = navigation.values() if isinstance(navigation, dict) else navigation
        for part in parts:
            yield from listed(part)


def pages() -> list[str]:
    """Return every page, relative to docs/."""
    return [page.relative_to(DOCS).as_posix() for page in sorted(DOCS.rglob("*.md"))]


def words(page: str) -> int:
    """Count the words of a page as wc does, without comments."""
    return len(HIDDEN.sub("", (DOCS / page).read_text(encoding="utf-8")).split())


def test_every_page_is_in_the_navigation_once() -> None:
    assert sorted(listed(SITE["nav"])) == pages()


def test_a_page_to_be_read_in_one_go_is_short() -> None:
    long = {page: words(page) for page in pages() if page.split("/")[0] in SHORT}
    assert len(long) > 5
    assert {page: count for page, count in long.items() if count > MAX_WORDS} == {}


def test_every_page_begins_with_one_heading() -> None:
    for page in pages():
        text = re.sub(
            r"^```.*?^```", "", (DOCS / page).read_text(encoding="utf-8"), flags=re.M | re.S
        )
        assert text.startswith("# "), page
        assert len(re.findall(r"^# ", text, re.MULTILINE)) == 1, page


def test_commands_name_pools_by_their_group() -> None:
    """The Gateway API Inference Extension has a kind of the same name, and kubectl takes either."""
    command = re.compile(r"kubectl .*\binferencepools?(?!\.penstock\.dev)(?=[ /]).*")
    for page in pages():
        assert command.findall((DOCS / page).read_text(encoding="utf-8")) == [], page
