"""Whether the show happened is decided by its record, not by its having ended."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.demo import closing, outcome
from tests.demo.moment import Gauges, Moment, moment
from tests.demo.outcome import EditTaken, Run, changes, failures
from tests.support.kube.target import Target
from tests.support.load.report import Report

FINAL = Report(
    second=60, rate=10, sent=100, completed=98, refused=2, lost=0, wrong=0, in_flight=0,
    p50=80.0, p99=200.0, final=True,
)  # fmt: skip


OWN = Target("/k", None, Path("/bin"))


def second(number: int, cap: int | None, ready: int) -> Moment:
    return Moment(
        number, "load rises", 10, 100.0, number, 0, 0, 3.0, 0.5, cap, ready, ready, "cap", "why"
    )


def good_run() -> Run:
    path = [(None, 1), (4, 1), (4, 3), (5, 3), (5, 1)]
    moments = [second(number, cap, ready) for number, (cap, ready) in enumerate(path)]
    edit = EditTaken("kubectl patch pspool sample", 0.8, "")
    return Run(moments=moments, edits=[edit], timings={"apply to Ready": 6.0}, final=FINAL)


def test_a_good_run_has_no_failures() -> None:
    assert failures(good_run()) == []


def test_changes_begin_at_the_first_known_value() -> None:
    assert changes(good_run().moments, lambda sample: sample.cap) == [(1, 4), (3, 5)]


@pytest.mark.parametrize(
    ("lost", "wrong"), [(1, 0), (0, 1)], ids=["one lost", "one answered wrongly"]
)
def test_a_single_bad_request_fails_the_demo(lost: int, wrong: int) -> None:
    run = good_run()
    run.final = replace(FINAL, lost=lost, wrong=wrong)
    assert "requests lost" in failures(run)[0]


def test_a_cap_that_never_moves_fails_the_demo() -> None:
    run = good_run()
    run.moments = [replace(sample, cap=4) for sample in run.moments]
    assert failures(run) == ["the batch cap never moved"]


def test_replicas_that_never_rise_or_never_fall_fail_the_demo() -> None:
    run = good_run()
    run.moments = run.moments[:-1]
    assert failures(run) == ["the replicas never fell again"]
    run.moments = [replace(sample, ready=1) for sample in run.moments]
    assert failures(run) == ["the replicas never rose"]


def test_an_edit_that_did_not_reach_every_pod_fails_the_demo() -> None:
    run = good_run()
    run.edits = [EditTaken("kubectl patch pspool sample", None, "")]
    assert failures(run) == ["edit not acknowledged by all pods: kubectl patch pspool sample"]


def test_what_went_wrong_after_the_show_fails_the_demo() -> None:
    run = good_run()
    run.problems.append("the chat pool gave no answer: refused")
    assert failures(run) == ["the chat pool gave no answer: refused"]


def test_what_could_not_be_shown_is_said_and_is_no_failure() -> None:
    run = good_run()
    run.notes.append("no chat: its pool is not Ready: no storage class")
    assert failures(run) == []
    text = "\n".join(closing.page(run, [], "run.json", OWN))
    assert "NOT SHOWN: no chat: its pool is not Ready: no storage class" in text


def test_a_load_generator_without_figures_fails_the_demo() -> None:
    run = good_run()
    run.final = None
    assert failures(run) == ["the load generator gave no figures"]


def test_a_moment_of_a_pool_without_status_has_unknown_values() -> None:
    line = moment(3, "act", FINAL, {"spec": {}}, Gauges())
    assert (line.cap, line.waiting, line.duty, line.ready, line.why) == (None, None, None, 0, "")


def test_the_last_page_has_losses_and_the_next_commands() -> None:
    text = "\n".join(closing.page(good_run(), ["light.svg"], "run.json", OWN))
    assert "lost: 0 of 100 requests (refused with Retry-After: 2)" in text
    assert "acknowledged by all pods after 0.8 s" in text
    assert "export KUBECONFIG=/k PATH=/bin:$PATH" in text
    assert "make cluster-down" in text


def test_a_foreign_cluster_is_not_taken_down() -> None:
    foreign = Target(None, "theirs", Path("/bin"))
    text = "\n".join(closing.next_steps(foreign))
    assert "kubectl --context theirs delete namespace" in text
    assert "make cluster-down" not in text


def test_the_record_is_plain_data() -> None:
    record = outcome.as_json(good_run())
    assert record["ready"] == [(0, 1), (2, 3), (4, 1)]
    assert record["moments"][0]["cap"] is None


def test_a_cluster_in_docker_is_reached_by_its_own_kubeconfig(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KUBECONFIG", "/cache/kind.kubeconfig")
    steps = closing.next_steps(Target(None, "kind-penstock-demo", Path("/bin")))
    assert "  export KUBECONFIG=/cache/kind.kubeconfig" in steps
    assert "kind delete cluster --name penstock-demo" in steps[-1]
