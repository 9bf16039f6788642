"""`python -m tests.support.pages` writes the generated parts of docs/; with `--check` it fails if one is stale."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.support.pages.blocks import DOCS, ROOT, pages
from tests.support.pages.openapi import document
from tests.support.pages.tables import MARKED, fill

OPENAPI = DOCS / "reference" / "openapi.json"


def generated() -> dict[Path, str]:
    """Return the text of every page with a generated table, and of the OpenAPI file."""
    texts = {page: page.read_text(encoding="utf-8") for page in pages()}
    filled = {page: fill(text) for page, text in texts.items() if MARKED.search(text)}
    return filled | {OPENAPI: json.dumps(document(), indent=1) + "\n"}


def stale() -> list[Path]:
    """Return the generated files that are missing or outdated."""
    return [
        path
        for path, text in generated().items()
        if not path.is_file() or path.read_text(encoding="utf-8") != text
    ]


def main(arguments: Sequence[str]) -> int:
    """Write the files, or with `--check` print the stale ones; return the exit status."""
    if "--check" not in arguments:
        for path, text in generated().items():
            path.write_text(text, encoding="utf-8")
        return 0
    outdated = stale()
    for path in outdated:
        print(f"{path.relative_to(ROOT)} is stale: make pages")
    return int(bool(outdated))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
