"""Vale's style has every word of the vocabulary that needs no context, and the rules of `prose.toml`."""

import re
from pathlib import Path

import yaml

from tests.audit import prose
from tests.audit.vocabulary import read_words


def test_a_word_of_the_vocabulary_is_a_rule_with_its_reason_and_its_replacement() -> None:
    rule = prose.rules()["Words/reckon"]
    assert rule["tokens"] == [r"reckon\w*"]
    assert rule["message"] == "'%s': archaic; write: compute, estimate"
    assert rule["level"] == "error"


def test_every_word_is_a_rule_unless_its_exceptions_need_context() -> None:
    without_context = [word for word in read_words() if word.pattern and word.allow is None]
    written = [name for name in prose.rules() if name.startswith("Words/")]
    assert len(written) == len(without_context) > 20
    assert all(re.fullmatch(r"Words/[\w-]+", name) for name in written)


def test_tutorials_guides_and_concepts_have_rules_of_their_own(tmp_path: Path) -> None:
    configuration = prose.write(tmp_path).read_text(encoding="utf-8")
    general, short = configuration.split("[**/{tutorials,how-to,concepts}/**/*.md]")
    assert "Pages" not in general
    assert "BasedOnStyles = Words, Prose, Pages" in short
    rule = yaml.safe_load((tmp_path / "styles" / "Pages" / "SentenceLength.yml").read_text())
    assert (rule["scope"], rule["max"]) == ("sentence", 40)


def test_an_accepted_spelling_is_accepted_in_either_case_and_as_a_genitive(tmp_path: Path) -> None:
    prose.write(tmp_path)
    accepted = tmp_path / "styles" / "config" / "vocabularies" / "Penstock" / "accept.txt"
    patterns = accepted.read_text(encoding="utf-8").splitlines()
    assert any(re.fullmatch(pattern, "Kubelet's") for pattern in patterns)
