"""`make docs` checks prose with Vale, by a style that is written from `vocabulary.toml` and `prose.toml`.

The words of `vocabulary.toml` whose exceptions depend on their context stay with `tests.audit.vocabulary`.
"""

import json
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.support.cluster.packages.tools import GO_FLAGS, GoTool, build_tool
from tests.support.cluster.places import Places

ROOT = Path(__file__).parents[2]
WORDS = Path(__file__).with_name("vocabulary.toml")
RULES = Path(__file__).with_name("prose.toml")
SPELLING = Path(__file__).with_name("spelling.txt")
OUT = ROOT / "build" / "vale"
VALE = GoTool(
    "vale",
    ("env", "CGO_ENABLED=1", "go", "install", *GO_FLAGS, "-s -w", "github.com/vale-cli/vale/v3/cmd/vale@v3.22.0"),
    ("vale",),
)  # fmt: skip
"""Needs a C compiler, for the parsers of code that it carries."""


def rules() -> dict[str, Mapping[str, Any]]:
    """Return Vale's rules by style and name, such as `Words/anew`."""
    words = tomllib.loads(WORDS.read_text(encoding="utf-8"))["word"]
    written: dict[str, Mapping[str, Any]] = {
        f"Words/{entry['word'].replace(' ', '-').replace(chr(39), '')}": {
            "extends": "existence",
            "message": f"'%s': {entry['why']}; write: {entry['say']}",
            "level": "error",
            "ignorecase": True,
            "tokens": [entry.get("pattern", entry["word"])],
        }
        for entry in words
        if "allow" not in entry
    }
    return written | {
        f"{style}/{name}": {"level": "error", **rule}
        for style, table in tomllib.loads(RULES.read_text(encoding="utf-8")).items()
        for name, rule in table.items()
    }


def write(out: Path) -> Path:
    """Write the styles and Vale's configuration below `out`; return the latter."""
    for name, rule in rules().items():
        path = out / "styles" / f"{name}.yml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump(dict(rule), sort_keys=False), encoding="utf-8")
    accepted = out / "styles" / "config" / "vocabularies" / "Penstock" / "accept.txt"
    accepted.parent.mkdir(parents=True, exist_ok=True)
    words = SPELLING.read_text(encoding="utf-8").split()
    accepted.write_text("".join(f"(?i){word}('s)?\n" for word in words), encoding="utf-8")
    configuration = out / "vale.ini"
    configuration.write_text(
        "StylesPath = styles\nVocab = Penstock\nMinAlertLevel = error\n\n"
        "[*.md]\nBasedOnStyles = Words, Prose\nVale.Spelling = YES\n\n"
        "[**/{tutorials,how-to,concepts}/**/*.md]\nBasedOnStyles = Words, Prose, Pages\nVale.Spelling = YES\n",
        encoding="utf-8",
    )
    return configuration


def alerts(configuration: Path, pages: Sequence[Path]) -> list[str]:
    """Return one line for each finding in `pages`.

    Raises:
        RuntimeError: Vale rejected its configuration.
    """
    vale = build_tool(Places.from_env(), VALE) / "vale"
    command: list[str | Path] = [
        vale,
        "--output=JSON",
        "--no-exit",
        f"--config={configuration}",
        *pages,
    ]
    answer = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    if answer.returncode or answer.stderr:
        raise RuntimeError(answer.stderr or answer.stdout)
    findings: dict[str, list[dict[str, Any]]] = json.loads(answer.stdout)
    return [
        f"{page}:{each['Line']}:{each['Span'][0]}: {each['Check']}: {each['Message']}"
        for page, places in findings.items()
        for each in places
    ]


def main(arguments: Sequence[str]) -> int:
    """Print each finding in the pages, by default those of docs/; return 1 if there is any."""
    pages = [Path(name).resolve() for name in arguments] or sorted((ROOT / "docs").rglob("*.md"))
    lines = alerts(write(OUT), pages)
    print("\n".join([*lines, f"prose: {len(pages)} pages, {len(lines)} findings"]))
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
