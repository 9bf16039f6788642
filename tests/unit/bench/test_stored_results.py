"""The control bench reuses a result only if what it measured is unchanged."""

from pathlib import Path

import grimp
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


def test_a_result_of_an_own_law_depends_on_everything_that_the_laws_import() -> None:
    graph = grimp.build_graph("penstock_operator", "penstock_api", cache_dir=None)
    observed, laws = "penstock_operator.observed", set[str]()
    for unread in graph.find_modules_directly_imported_by(observed):
        graph.remove_import(importer=observed, imported=unread)
    for name in ("capacity_at_objective", "utilization_band"):
        law = f"penstock_operator.decide.scaling.{name}"
        laws |= graph.find_upstream_modules(law, as_package=True)
    files = {
        f"operator/{name.replace('.', '/')}.py"
        for name in laws
        if not name.startswith(("penstock_api.types", "penstock_api.base"))
    }
    assert all(Path(file).is_file() for file in files)
    sources = store.sources(Job(TRACE, None, plan.DEFAULT), Path("traces"))
    assert not {file for file in files if not file.startswith(sources)}
    frozen = {file for file in files if "/decide/" in file or file.endswith("/measured.py")}
    assert not {file for file in frozen if not file.startswith(store.OWN_LAWS)}
