"""The bench of laws says under which commit the defaults were frozen, and where they are not."""

import subprocess
from pathlib import Path

import pytest

from tests.bench.control import commits

LAW = Path("operator/penstock_operator/decide/scaling/law.py")
OTHER = Path("README.md")


def git(*words: str) -> str:
    done = subprocess.run(("git", *words), capture_output=True, text=True, check=True)
    return done.stdout.strip()


def committed(file: Path, text: str) -> str:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    git("add", "-A")
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    git(*who, "commit", "-qm", "more")
    return git("rev-parse", "--short=12", "HEAD")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A repository with a later commit than the law's; returns the law's."""
    monkeypatch.chdir(tmp_path)
    git("init", "-q")
    law = committed(LAW, "one")
    committed(OTHER, "one")
    return law


def test_the_defaults_are_frozen_by_the_last_commit_that_touched_the_law(repository: str) -> None:
    commit = commits.frozen()
    assert commit.commit == repository
    assert commit.changed == ()
    assert f"defaults frozen at {repository} of 20" in commit.sentence()
    assert "NOT" not in commit.sentence()


def test_a_change_elsewhere_thaws_nothing(repository: str) -> None:
    OTHER.write_text("two")
    assert commits.frozen().changed == ()


@pytest.mark.parametrize("file", [LAW, LAW.with_name("untracked.py")])
def test_a_law_that_differs_from_its_commit_is_warned_of_by_its_files(
    repository: str, file: Path
) -> None:
    file.write_text("two")
    commit = commits.frozen()
    assert commit.changed == (str(file),)
    assert "NOT frozen" in commit.sentence()
    assert str(file) in commit.sentence()


def test_a_staged_change_is_a_change(repository: str) -> None:
    LAW.write_text("two")
    git("add", "-A")
    assert commits.frozen().changed == (str(LAW),)


def test_outside_a_repository_nothing_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert commits.frozen().commit == "unknown"
    assert "NOT frozen" in commits.frozen().sentence()
