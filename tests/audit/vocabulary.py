"""Vocabulary check of `make lint`: counts the words of vocabulary.toml in docs, comments, strings and identifiers.

Each top-level folder has a limit in vocabulary.json. A folder over its limit fails the check; `--lower` writes smaller
limits once words were replaced, and never larger ones. `--files` lists the counts by file, `--lines FILE` each place.
"""

import argparse
import ast
import io
import json
import re
import subprocess
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
WORDS = Path(__file__).with_suffix(".toml")
LIMITS = Path(__file__).with_suffix(".json")
TEXTS = {".md", ".yaml", ".yml", ".toml", ".tpl", ".txt", ".sh", ""}
C_SOURCES = {".c", ".h", ".go"}
SKIPPED = re.compile(
    r"LICENSE$|tests/audit/vocabulary\.|tests/unit/audit/test_vocabulary\.py$"
    r"|charts/penstock/charts/|charts/penstock-crds/templates/|tests/integration/api/earlier/"  # copies
    r"|tests/support/demo_model/corpus\.txt$"  # training data of the demonstration model
)
C_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
CODE_SPAN = re.compile(r"`[^`\n]+`")


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

    @property
    def folder(self) -> str:
        """The top-level folder; `.` for a file of the root."""
        return self.file.partition("/")[0] if "/" in self.file else "."


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


def scan_repository(words: Sequence[Word], root: Path = ROOT) -> list[Place]:
    """Return every match in the repository."""
    return [
        place
        for name in repository_files(root)
        for place in scan(name, (root / name).read_text(encoding="utf-8"), words)
    ]


def over_limit(counts: Mapping[str, int], limits: Mapping[str, int]) -> dict[str, int]:
    """Return by how many words each folder exceeds its limit; a folder without a limit has 0."""
    excess = {folder: count - limits.get(folder, 0) for folder, count in counts.items()}
    return {folder: words for folder, words in excess.items() if words > 0}


def lowered(counts: Mapping[str, int], limits: Mapping[str, int]) -> dict[str, int]:
    """Return the limits, each as small as the count allows, none larger than before."""
    smaller = {folder: min(limit, counts.get(folder, 0)) for folder, limit in limits.items()}
    return {folder: limit for folder, limit in sorted(smaller.items()) if limit}


def _report(places: Iterable[Place], words: Sequence[Word], *, files: bool) -> None:
    by_word = Counter(place.word for place in places)
    table = {word.word if word.pattern else f"local {word.word}": word for word in words}
    for name, count in by_word.most_common():
        print(f"{count:6}  {name:14} {table[name].say}  ({table[name].why})")
    if files:
        for name, count in Counter(place.file for place in places).most_common():
            print(f"{count:6}  {name}")


def main(arguments: Sequence[str], root: Path = ROOT, limits_file: Path = LIMITS) -> int:
    """Print the counts; return 1 if a folder is over its limit."""
    parser = argparse.ArgumentParser(prog="python -m tests.audit.vocabulary", description=__doc__)
    parser.add_argument("--lower", action="store_true", help="write the present counts as limits")
    parser.add_argument("--files", action="store_true", help="print the counts by file")
    parser.add_argument("--lines", metavar="FILE", help="print each place in one file")
    options = parser.parse_args(arguments)
    words = read_words()
    if options.lines:
        text = (root / options.lines).read_text(encoding="utf-8")
        for place in sorted(scan(options.lines, text, words), key=lambda each: each.line):
            print(f"{place.file}:{place.line}: {place.word}")
        return 0
    places = scan_repository(words, root)
    counts = Counter(place.folder for place in places)
    limits: dict[str, int] = json.loads(limits_file.read_text(encoding="utf-8"))
    if options.lower:
        limits = lowered(counts, limits)
        limits_file.write_text(json.dumps(limits, indent=2) + "\n", encoding="utf-8")
    excess = over_limit(counts, limits)
    if options.files or excess:
        _report(places, words, files=options.files)
    for folder in sorted(counts.keys() | limits.keys()):
        limit = limits.get(folder, 0)
        hint = "; run with --lower" if counts[folder] < limit else ""
        print(f"vocabulary: {folder}: {counts[folder]} of at most {limit}{hint}")
    for folder, more in excess.items():
        print(
            f"{folder}: over its limit by {more}; see tests/audit/vocabulary.toml for replacements"
            " and run `python -m tests.audit.vocabulary --files`",
            file=sys.stderr,
        )
    return int(bool(excess))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
