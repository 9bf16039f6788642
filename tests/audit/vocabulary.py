"""Vocabulary check of `make lint`: finds the words of vocabulary.toml in docs, comments, strings and identifiers."""

import argparse
import ast
import io
import re
import subprocess
import sys
import tokenize
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
WORDS = Path(__file__).with_suffix(".toml")
TEXTS = {".md", ".yaml", ".yml", ".toml", ".tpl", ".txt", ".sh", ""}
C_SOURCES = {".c", ".h", ".go"}
YAML = {".yaml", ".yml"}
SKIPPED = re.compile(
    r"LICENSE$|tests/audit/vocabulary\.|tests/unit/audit/test_(?:vocabulary|prose)\.py$"
    r"|charts/penstock/charts/|charts/penstock-crds/templates/|tests/integration/api/earlier/"  # copies
    r"|tests/support/demo_model/corpus\.txt$"  # training data of the demonstration model
)
C_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
CODE_SPAN = re.compile(r"`[^`\n]+`")
YAML_NAME = re.compile(r"^[ -]*[\w./-]+(?=:|$)", re.MULTILINE)
"""A key, or an item of one word: API fields keep their names."""


@dataclass(frozen=True, slots=True)
class Word:
    """One word to replace: what matches it, why, and what to write."""

    word: str
    why: str
    say: str
    pattern: re.Pattern[str] | None = None
    """None: the name of a local variable or argument."""
    allow: re.Pattern[str] | None = None
    names: bool = False
    """Whether it also counts as a part of a name, such as `read_anew`."""

    def matches(self, text: str) -> Iterator[int]:
        """Yield the offset of each match outside the exceptions."""
        if self.pattern is None:
            return
        allowed = [match.span() for match in self.allow.finditer(text)] if self.allow else []
        for match in self.pattern.finditer(text):
            if not any(start <= match.start() < end for start, end in allowed):
                yield match.start()


@dataclass(frozen=True, slots=True)
class Place:
    """A match: the file, the line (1 is the first) and the word."""

    file: str
    line: int
    word: str


def read_words(path: Path = WORDS) -> tuple[Word, ...]:
    """Return the table of words.

    Raises:
        KeyError: an entry lacks `word`, `why` or `say`.
    """
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    prose = (
        Word(
            entry["word"],
            entry["why"],
            entry["say"],
            _pattern(entry.get("pattern", entry["word"])),
            _pattern(entry["allow"]) if "allow" in entry else None,
            entry.get("names", False),
        )
        for entry in table["word"]
    )
    names = (Word(entry["word"], entry["why"], entry["say"]) for entry in table["identifier"])
    return (*prose, *names)


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{text})\b", re.IGNORECASE)


def scan(file: str, text: str, words: Sequence[Word]) -> Iterator[Place]:
    """Yield each match in a file: all of a text, the comments of C and Go, comments, strings and names of Python.

    Keys of dict displays are not counted: like text in backticks they are fields of the API.
    """
    suffix = Path(file).suffix
    if suffix == ".py":
        parts = _python(text)
        yield from _names(file, text, words)
    elif suffix in C_SOURCES:
        parts = ((_line(text, match.start()), match[0]) for match in C_COMMENT.finditer(text))
    elif suffix in YAML:
        parts = iter([(1, YAML_NAME.sub(lambda name: " " * len(name[0]), text))])
    else:
        parts = iter([(1, text)])
    anything = re.compile("|".join(word.pattern.pattern for word in words if word.pattern), re.I)
    for first, part in parts:
        prose = CODE_SPAN.sub(lambda span: "`" * len(span[0]), part)
        for word in words if anything.search(prose) else ():
            for offset in word.matches(prose):
                yield Place(file, first + prose.count("\n", 0, offset), word.word)


def _line(text: str, offset: int) -> int:
    return 1 + text.count("\n", 0, offset)


def _python(text: str) -> Iterator[tuple[int, str]]:
    tree = ast.parse(text)
    keys = {key for node in ast.walk(tree) if isinstance(node, ast.Dict) for key in node.keys}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if node in keys and node.value.isidentifier():
                continue  # a field of the API
            yield node.lineno, node.value
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def _names(file: str, text: str, words: Sequence[Word]) -> Iterator[Place]:
    banned = {word.word for word in words if word.pattern is None}
    partly = [word for word in words if word.names]
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                if name in banned:
                    yield Place(file, node.lineno, f"local {name}")
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                pass
            case _:
                continue
        phrase = name.replace("_", " ")
        for word in partly:
            yield from (Place(file, node.lineno, word.word) for _ in word.matches(phrase))


def repository_files(root: Path = ROOT) -> list[str]:
    """Return the text files that git tracks or would track, without copies and licences."""
    command = ("git", "ls-files", "--cached", "--others", "--exclude-standard")
    listed = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True)
    known = {".py", *TEXTS, *C_SOURCES}
    return sorted(
        name
        for name in set(listed.stdout.splitlines())
        if Path(name).suffix in known and not SKIPPED.search(name) and (root / name).is_file()
    )


def main(arguments: Sequence[str], root: Path = ROOT) -> int:
    """Print each place with its reason and replacement; return 1 if there is any."""
    parser = argparse.ArgumentParser(prog="python -m tests.audit.vocabulary", description=__doc__)
    parser.add_argument("files", nargs="*", help="files to check; all of the repository if none")
    files = parser.parse_args(arguments).files or repository_files(root)
    words = read_words()
    table = {word.word if word.pattern else f"local {word.word}": word for word in words}
    places = [
        place
        for name in files
        for place in sorted(
            scan(name, (root / name).read_text(encoding="utf-8"), words),
            key=lambda each: (each.line, each.word),
        )
    ]
    for place in places:
        word = table[place.word]
        print(f"{place.file}:{place.line}: {place.word} ({word.why}); write: {word.say}")
    return int(bool(places))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
