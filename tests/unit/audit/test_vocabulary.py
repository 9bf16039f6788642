"""The vocabulary check finds each word of its table, and leaves code and API fields alone."""

import subprocess
from pathlib import Path

import pytest

from tests.audit import vocabulary
from tests.audit.vocabulary import main, read_words, scan

WORDS = read_words()
BAD_PYTHON = '''"""Whoever refuses is told, and nobody
asks."""

def count(one: int) -> int:  # a loop that runs for ever
    found = one + 1
    raise ValueError(f"{found} replicas would do")
'''
BAD_PAGE = "The blocks lie\nbeside each other, be it in memory\nor, for\never, on disk.\n"
BAD_C = "int x; /* keys\n   lie here */ char *lie; // read anew\n"
GOOD = """The status field `asked` and the reason `Told` keep their names.
Users who create pools run code in their namespace. Besides, `docs` explain who wins.
The scheduler preempts the lowest-ranked sequence and reports the result until it stops.
"""


def words_of(file: str, text: str) -> list[tuple[int, str]]:
    return sorted((place.line, place.word) for place in scan(file, text, WORDS))


def test_docstrings_comments_strings_and_locals_of_python_are_checked() -> None:
    # a word of a docstring counts at its own line, one of an f-string at the string's
    assert words_of("operator/a.py", BAD_PYTHON) == [
        (1, "nobody"),
        (1, "tell"),
        (1, "whom"),
        (2, "ask"),
        (4, "for ever"),
        (4, "local one"),
        (5, "local found"),
        (6, "would do"),
    ]


def test_keys_of_dict_displays_are_fields_and_not_checked() -> None:
    assert words_of("tests/a.py", 'row = {"asked": "who asked"}\n') == [(1, "ask"), (1, "who")]


def test_names_in_yaml_are_fields_and_not_checked() -> None:
    text = "asked:\n  description: what the pool asked for\nrequired:\n- asked\n"
    assert words_of("crds/a.yaml", text) == [(2, "ask")]


def test_parts_of_names_are_checked_for_words_with_names() -> None:
    text = "def read_anew(foretold_rows: int) -> None:\n    asked_for = waits_for_ever = 1\n"
    assert words_of("operator/a.py", text) == [(1, "anew"), (1, "foretell"), (2, "for ever")]


def test_a_phrase_that_spans_two_lines_is_found() -> None:
    assert words_of("pages/a.md", BAD_PAGE) == [
        (1, "lie"),
        (2, "be it"),
        (2, "beside"),
        (3, "for ever"),
    ]


def test_only_the_comments_of_c_are_checked() -> None:
    assert words_of("runtime/a.c", BAD_C) == [(2, "anew"), (2, "lie")]


def test_plain_english_and_code_in_backticks_pass() -> None:
    assert words_of("pages/a.md", GOOD) == []


@pytest.mark.parametrize("word", WORDS, ids=lambda word: word.word)
def test_every_word_has_a_reason_and_a_replacement_that_passes(word: vocabulary.Word) -> None:
    assert word.why
    if word.pattern is not None:
        assert word.pattern.search(word.word)
        assert list(word.matches(word.say)) == []


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with three words to replace, two in pages and one in tools."""
    subprocess.run(("git", "init", "-q", tmp_path), check=True)
    texts = {"pages/a.md": "anew,\nin vain", "tools/a.py": "held = 1\n", "tools/b.py": "pods = 1\n"}
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_the_check_fails_and_names_place_reason_and_replacement(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([], repository) == 1
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "pages/a.md:1: anew (archaic); write: again"
    assert [line.split(" ")[0] for line in printed] == [
        "pages/a.md:1:",
        "pages/a.md:2:",
        "tools/a.py:1:",
    ]


def test_the_check_passes_without_a_listed_word(repository: Path) -> None:
    assert main(["tools/b.py"], repository) == 0
