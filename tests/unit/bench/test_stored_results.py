"""The control bench reuses a result only if what it measured is unchanged."""

from pathlib import Path

import pytest

from tests.bench.control import plan, store
from tests.bench.control.jobs import Job, Result

TRACE = "azure_conv"


def traces(folder: Path, text: str) -> Path:
    folder.mkdir()
    (folder / plan.TRACES[TRACE]).write_text(text)
    return folder


def test_a_result_of_another_trace_file_is_not_reused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "LINES", tmp_path / "runs.jsonl")
    here, there = traces(tmp_path / "here", "1\n2\n"), traces(tmp_path / "there", "1\n3\n")
    result = Result(Job(TRACE, None, plan.DEFAULT), None, 1.0)
    store.add([result], here)
    assert store.ResultStore(here).result(result.job) == result
    assert store.ResultStore(there).result(result.job) is None


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        (Job(TRACE, None, plan.DEFAULT), False),
        (Job(TRACE, None, plan.DEFAULT, ablated="lateness"), True),
        (Job(TRACE, None, plan.DEFAULT, changed=("UTILIZATION", 0.75)), True),
    ],
)
def test_a_result_of_a_changed_law_depends_on_the_change(job: Job, *, expected: bool) -> None:
    sources = store.sources(job, Path("traces"))
    assert (set(store.CHANGES) <= set(sources)) is expected
    assert all(Path(source).is_file() for source in store.CHANGES)
