"""The fenced blocks of a page of docs/, and which of them run as tests.

A block of `sh` runs, in the page's order, unless the line before it is `<!-- not run: REASON -->`. A comment
`<!-- before` with commands, up to `-->`, runs in the same place and is not shown to readers.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
PARTS = re.compile(
    r"^<!-- not run: (?P<reason>[^\n]+) -->\n"
    r"|^<!-- before\n(?P<before>.*?)^-->\n"
    r"|^```(?P<language>\w+)[^\n]*\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
HEREDOC = re.compile(r"-f - <<EOF[^\n]*\n(.*?)^EOF$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block, or the commands of a `before` comment."""

    page: str
    """Path relative to docs/."""
    line: int
    """Line of the page on which it begins; 1 is the first."""
    language: str
    text: str
    not_run: str | None = None
    """Why it does not run as a test."""

    @property
    def runs(self) -> bool:
        """Whether its commands run as a test."""
        return self.language == "sh" and self.not_run is None

    def __str__(self) -> str:
        """Return where it is."""
        return f"{self.page}:{self.line}"


def blocks(page: Path) -> Iterator[Block]:
    """Yield the blocks of a page in order.

    Raises:
        ValueError: a `not run` marker is not followed by a block of `sh`.
    """
    text = page.read_text(encoding="utf-8")
    name = page.relative_to(DOCS).as_posix() if DOCS in page.parents else page.name
    marker: tuple[int, str] | None = None
    for match in PARTS.finditer(text):
        line = 1 + text.count("\n", 0, match.start())
        if match["reason"]:
            marker = (match.end(), match["reason"])
            continue
        reason = marker[1] if marker and marker[0] == match.start() else None
        if marker and (reason is None or match["language"] != "sh"):
            raise ValueError(f"{name}:{line}: `not run` must be followed by a block of sh")
        marker = None
        if match["before"] is not None:
            yield Block(name, line, "sh", match["before"])
        else:
            yield Block(name, line, match["language"], match["text"], reason)


def pages(*sections: str) -> list[Path]:
    """Return the pages of some sections of docs/, all of them if none is named."""
    listed = sorted(DOCS.rglob("*.md"))
    return [page for page in listed if not sections or page.relative_to(DOCS).parts[0] in sections]


def manifests(block: Block) -> Iterator[object]:
    """Yield each YAML document of a block: of a `yaml` block, or of the here-documents of a `sh` block."""
    texts = [block.text] if block.language == "yaml" else HEREDOC.findall(block.text)
    for text in texts if block.language in ("yaml", "sh") else ():
        yield from yaml.safe_load_all(text)
