"""The search: near the best of an exhaustive sweep, pruned early where that is clear, and resumed after a kill."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from penstock_tuner.errors import NoTrial, PodFailed
from penstock_tuner.pareto_front import failures, front, ranked
from penstock_tuner.record import StudyRecord, TriedSettings
from penstock_tuner.search import FINAL_SHARE, FINALISTS, Search, SearchPlan
from penstock_tuner.settings import (
    ROUNDS,
    LoadMeasurement,
    SearchSpace,
    TunedSettings,
    TuningObjective,
)

OBJECTIVE = TuningObjective(500)
SPACE = SearchSpace(256, 50)
CLIENTS = 64


@dataclass
class ModelledPod:
    """A pod that takes 40 + 5 b ms for a batch of b rows, on a clock that its measurements move."""

    now: float = 0.0
    measured: list[tuple[TunedSettings, float]] = field(default_factory=list)
    dies_after: int | None = None
    loads: Callable[[TunedSettings], bool] = lambda _settings: True

    async def measure(self, settings: TunedSettings, seconds: float) -> LoadMeasurement:
        if self.dies_after is not None and len(self.measured) >= self.dies_after:
            raise KeyboardInterrupt
        self.measured.append((settings, seconds))
        self.now += seconds
        if not self.loads(settings):
            raise PodFailed("the pod ended with 1: no such operator")
        return modelled(settings, seconds)


def modelled(settings: TunedSettings, seconds: float) -> LoadMeasurement:
    """Return what the pod does in `seconds`."""
    batch = min(settings.batch_size, CLIENTS)
    step = 40 + 5 * batch + ((settings.queue_delay_milliseconds or 0) if batch < CLIENTS else 0)
    rate, latency = 1000 * batch / step, step * CLIENTS / batch
    done = int(rate * seconds)
    on_time = done if latency <= OBJECTIVE.milliseconds else 0
    return LoadMeasurement(seconds, done, on_time, 0, latency, latency)


def search(folder: Path, pod: ModelledPod, seconds: float) -> list[TriedSettings]:
    plan = SearchPlan(SPACE, OBJECTIVE, seconds, round_seconds=1.0)
    study = Search(folder / "study.journal", "model", plan)
    asyncio.run(study.run(pod.measure, lambda: pod.now, lambda _tried, _share: None))
    return study.tried()


def sweep() -> float:
    """Return the best goodput of all settings of the space, measured once each."""

    every = (TunedSettings(batch, delay) for batch in range(1, 257) for delay in range(51))
    measured = (modelled(settings, 7.0) for settings in every)
    return max(each.goodput for each in measured if each.meets(OBJECTIVE))


def test_the_best_is_within_five_percent_of_an_exhaustive_sweep(tmp_path: Path) -> None:
    best = front(search(tmp_path, ModelledPod(), seconds=200), OBJECTIVE)[0]
    assert best.measurement.goodput >= 0.95 * sweep()


def test_the_defaults_of_a_pool_are_tried_first(tmp_path: Path) -> None:
    pod = ModelledPod()
    search(tmp_path, pod, seconds=20)
    assert pod.measured[0][0] == TunedSettings(64, 5)


def test_the_defaults_are_tried_first_again_if_the_tuner_was_killed_with_them(
    tmp_path: Path,
) -> None:
    with pytest.raises(KeyboardInterrupt):
        search(tmp_path, ModelledPod(dies_after=1), seconds=20)
    pod = ModelledPod()
    search(tmp_path, pod, seconds=20)
    assert pod.measured[0][0] == TunedSettings(64, 5)


def test_settings_that_are_clearly_worse_get_less_time(tmp_path: Path) -> None:
    pod = ModelledPod()
    tried = search(tmp_path, pod, seconds=200)
    full = sum(2.0**number for number in range(ROUNDS))
    assert len(tried) > 200 / full
    assert {seconds for _, seconds in pod.measured} == {1.0, 2.0, 4.0}


def test_settings_that_meet_the_objective_are_not_ended_by_faster_ones_that_miss_it(
    tmp_path: Path,
) -> None:
    async def measure(settings: TunedSettings, seconds: float) -> LoadMeasurement:
        rate, late = (10.0 * settings.batch_size, 0.0) if settings.batch_size <= 32 else (400.0, 0.1)  # fmt: skip
        done = int(rate * seconds)
        pod.now += seconds
        return LoadMeasurement(seconds, done, int((1 - late) * done), 0, 100.0, 100.0)

    pod = ModelledPod()
    plan = SearchPlan(SPACE, OBJECTIVE, 200, round_seconds=1.0)
    study = Search(tmp_path / "j", "m", plan)
    asyncio.run(study.run(measure, lambda: pod.now, lambda _tried, _spent: None))
    whole = [each for each in study.tried() if each.is_complete and not each.again]
    assert sum(each.meets(OBJECTIVE) for each in whole) > len(whole) / 2
    assert front(study.tried(), OBJECTIVE)[0].measurement.goodput >= 0.9 * 320


def test_the_score_falls_with_the_requests_that_are_late_beyond_the_permitted_share() -> None:
    def score(on_time: int) -> float:
        return OBJECTIVE.score(LoadMeasurement(1.0, 1000, on_time, 0, 100.0, 100.0))

    assert [score(1000), score(990)] == [1000, 990]
    assert score(980) == pytest.approx(490)
    assert score(0) == 0
    assert OBJECTIVE.score(LoadMeasurement(1.0, 0, 0, 0, 0.0, 0.0)) == 0
    always = replace(OBJECTIVE, percent=100.0)
    assert always.score(LoadMeasurement(1.0, 10, 10, 0, 1.0, 1.0)) == 10
    assert always.score(LoadMeasurement(1.0, 10, 9, 0, 1.0, 1.0)) == 0


def test_the_last_part_of_the_time_measures_the_best_settings_again_in_turns(
    tmp_path: Path,
) -> None:
    tried = search(tmp_path, ModelledPod(), seconds=200)
    again = [each for each in tried if each.again]
    searched = tried[: len(tried) - len(again)]
    assert [each.again for each in tried] == [False] * len(searched) + [True] * len(again)
    lasted = [each.measurement.seconds for each in again]
    assert lasted == [4.0] * len(again)
    assert sum(lasted) == pytest.approx(FINAL_SHARE * 200, abs=8)
    best = [each.settings for each in ranked(searched, OBJECTIVE)[:FINALISTS]]
    assert {each.settings for each in again} == set(best)
    measured = Counter(each.settings for each in again)
    assert measured.total() >= 3 * FINALISTS


def test_measuring_again_shows_which_of_the_best_was_luck(tmp_path: Path) -> None:
    """Other load takes up to a half of some measurements, so that a single one says little."""
    noise, pod = random.Random(1), ModelledPod()  # noqa: S311  noise, not secrets

    async def noisy(settings: TunedSettings, seconds: float) -> LoadMeasurement:
        true = await pod.measure(settings, seconds)
        done = int(true.completed * noise.uniform(0.5, 1.0))
        return replace(true, completed=done, on_time=min(true.on_time, done))

    plan = SearchPlan(SPACE, OBJECTIVE, 600, round_seconds=1.0)
    study = Search(tmp_path / "j", "m", plan)
    asyncio.run(study.run(noisy, lambda: pod.now, lambda _tried, _spent: None))
    chosen = front(study.tried(), OBJECTIVE)[0]
    assert modelled(chosen.settings, 7.0).goodput >= 0.95 * sweep()
    assert chosen.measurement.seconds > 3 * 4.0


def test_settings_that_fail_when_they_are_measured_again_are_not_the_result(tmp_path: Path) -> None:
    pod = ModelledPod()
    pod.loads = lambda settings: pod.now < 120 or settings.batch_size < 32
    tried = search(tmp_path, pod, seconds=200)
    failed = [each for each in tried if each.failure]
    assert failed
    assert front(tried, OBJECTIVE)[0].settings not in {each.settings for each in failed}


def test_a_killed_search_continues_with_the_time_that_is_left(tmp_path: Path) -> None:
    killed = ModelledPod(dies_after=10)
    with pytest.raises(KeyboardInterrupt):
        search(tmp_path, killed, seconds=100)
    pod = ModelledPod()
    tried = search(tmp_path, pod, seconds=100)
    assert 70 <= pod.now < 100
    assert len(tried) >= 3
    settings = [each.settings for each in tried]
    assert killed.measured[0][0] in settings
    again = ModelledPod()
    assert search(tmp_path, again, seconds=100) == tried
    assert again.measured == []


def test_a_study_without_time_or_a_trial_ends_with_what_to_do(tmp_path: Path) -> None:
    study = Search(tmp_path / "j", "model", SearchPlan(SPACE, OBJECTIVE, 60, round_seconds=1.0))
    study._study.set_user_attr("spent_seconds", 61.0)
    pod = ModelledPod()
    asyncio.run(study.run(pod.measure, lambda: pod.now, lambda _tried, _spent: None))
    assert pod.measured == []
    with pytest.raises(NoTrial, match=r"no trial has ended, and 61 of 60 s are spent: give more"):
        study.ended()


def test_settings_with_which_no_pod_serves_are_a_trial_and_the_search_goes_on(
    tmp_path: Path,
) -> None:
    space = SearchSpace(64, 10, ("Eager", "OpenVINO"))
    study = Search(tmp_path / "j", "m", SearchPlan(space, OBJECTIVE, 100, round_seconds=1.0))
    pod = ModelledPod(loads=lambda settings: settings.backend == "Eager")
    asyncio.run(study.run(pod.measure, lambda: pod.now, lambda _tried, _spent: None))
    tried = study.ended()
    failed = [each for each in tried if each.failure]
    assert {each.settings.backend for each in failed} == {"OpenVINO"}
    assert all(each.rounds == (0.0,) for each in failed)
    assert len(tried) - len(failed) > len(failed)
    assert {each.settings.backend for each in front(tried, OBJECTIVE)} == {"Eager"}
    assert TriedSettings.from_json(failed[0].as_json()) == failed[0]
    (sentence,) = failures(tried)
    assert sentence.startswith(
        f"no pod served in {len(failed)} of {len(tried)} trials; the last settings were batch_size"
    )
    assert sentence.endswith("backend OpenVINO: the pod ended with 1: no such operator")


def test_a_search_in_which_no_pod_serves_ends_with_its_last_words(tmp_path: Path) -> None:
    study = Search(tmp_path / "j", "m", SearchPlan(SPACE, OBJECTIVE, 5, round_seconds=1.0))
    pod = ModelledPod(loads=lambda _settings: False)
    asyncio.run(study.run(pod.measure, lambda: pod.now, lambda _tried, _spent: None))
    with pytest.raises(PodFailed, match=r"no pod served in any of 5 trials: the pod ended"):
        study.ended()


def test_threads_and_backends_are_searched_where_they_are_given(tmp_path: Path) -> None:
    space = SearchSpace(8, 1, ("Eager", "OpenVINO"), (1, 2))
    study = Search(tmp_path / "j", "m", SearchPlan(space, OBJECTIVE, 60, round_seconds=1.0))
    pod = ModelledPod()
    asyncio.run(study.run(pod.measure, lambda: pod.now, lambda _tried, _share: None))
    tried = [each.settings for each in study.tried()]
    assert {each.backend for each in tried} == {"Eager", "OpenVINO"}
    assert {each.threads for each in tried} == {1, 2}


def test_tokens_of_a_step_are_searched_where_they_are_given(tmp_path: Path) -> None:
    space = SearchSpace(8, None, batched_tokens=(256, 1024))
    study = Search(tmp_path / "j", "m", SearchPlan(space, OBJECTIVE, 60, round_seconds=1.0))
    pod = ModelledPod()
    asyncio.run(study.run(pod.measure, lambda: pod.now, lambda _tried, _share: None))
    assert {each.settings.batched_tokens for each in study.tried()} == {256, 1024}


def test_a_study_restored_from_its_record_continues_on_another_machine(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    first = search(tmp_path / "a", ModelledPod(), seconds=60)
    record = StudyRecord("model", 60.0, tuple(first))
    study = Search(tmp_path / "b", "model", SearchPlan(SPACE, OBJECTIVE, 100, round_seconds=1.0))
    assert not study.restore(StudyRecord("another", 60.0, tuple(first)), fresh=0)
    assert study.restore(record, fresh=0)
    assert (study.tried(), study.spent_seconds) == (first, 60.0)
    pod = ModelledPod()
    asyncio.run(study.run(pod.measure, lambda: pod.now, lambda _tried, _spent: None))
    assert 40 <= pod.now < 50
    assert study.tried()[: len(first)] == first
    assert not study.restore(record, fresh=0)  # it has trials of its own


@pytest.mark.parametrize("kept", ["journal", "record"])
def test_a_study_that_continues_does_not_draw_its_first_settings_again(
    tmp_path: Path, kept: str
) -> None:
    with pytest.raises(KeyboardInterrupt):
        search(tmp_path, killed := ModelledPod(dies_after=9), seconds=1000)
    plan = SearchPlan(SPACE, OBJECTIVE, 1000, round_seconds=1.0)
    study = Search(tmp_path / "study.journal", "model", plan)
    if kept == "record":
        record = StudyRecord("model", killed.now, tuple(study.tried()))
        study = Search(tmp_path / "other.journal", "model", plan)
        assert study.restore(record, fresh=0)
    before = {each.settings for each in study.tried()}
    pod = ModelledPod(dies_after=6)
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(study.run(pod.measure, lambda: pod.now, lambda _tried, _spent: None))
    assert len(before) > 2
    assert not before & {settings for settings, _ in pod.measured}


def test_a_study_that_continues_after_a_kill_does_not_draw_the_same_settings_again(
    tmp_path: Path,
) -> None:
    tried = search(tmp_path, ModelledPod(), seconds=20)
    record, drawn = StudyRecord("model", 20.0, tuple(tried)), list[TunedSettings]()
    for process in range(5):
        plan = SearchPlan(SPACE, OBJECTIVE, 1000, round_seconds=1.0)
        study = Search(tmp_path / f"{process}.journal", "model", plan)
        assert study.restore(record, fresh=1_800_000_000_000_000_000 + process)
        pod = ModelledPod(dies_after=1)
        with pytest.raises(KeyboardInterrupt):
            asyncio.run(study.run(pod.measure, lambda: pod.now, lambda _tried, _spent: None))  # noqa: B023
        drawn.append(pod.measured[0][0])
    assert len(set(drawn)) == len(drawn)


@pytest.mark.parametrize("kept", ["journal", "record"])
def test_a_study_continues_where_memory_holds_fewer_rows_than_before(
    tmp_path: Path, kept: str, recwarn: pytest.WarningsRecorder
) -> None:
    first = search(tmp_path, ModelledPod(), seconds=60)
    caps = [each.settings.batch_size for each in first]
    smaller = SearchPlan(replace(SPACE, max_batch_size=max(caps) - 1), OBJECTIVE, 100, 1.0)
    folder = tmp_path if kept == "journal" else tmp_path / "other"
    folder.mkdir(exist_ok=True)
    study = Search(folder / "study.journal", "model", smaller)
    assert study.restore(StudyRecord("model", 60.0, tuple(first)), fresh=0) == (kept == "record")
    pod = ModelledPod()
    asyncio.run(study.run(pod.measure, lambda: pod.now, lambda _tried, _spent: None))
    assert study.tried()[: len(first)] == first
    assert [each.params["batch_size"] for each in study._study.trials][: len(caps)] == caps
    assert not [each for each in recwarn if "out of range" in str(each.message)]


def test_complete_trials_are_measured_at_the_rate_too_and_that_counts(tmp_path: Path) -> None:
    pod = ModelledPod()
    offered: list[tuple[int, float]] = []

    async def at_rate(settings: TunedSettings, seconds: float, goodput: float) -> LoadMeasurement:
        offered.append((settings.batch_size, goodput))
        on_time = 0 if settings.batch_size > 8 else 10
        return LoadMeasurement(seconds, 10, on_time, 0, 1.0, 1.0)

    study = Search(tmp_path / "j", "m", SearchPlan(SPACE, OBJECTIVE, 100, round_seconds=1.0))
    asyncio.run(study.run(pod.measure, lambda: pod.now, lambda _tried, _spent: None, at_rate))
    measured = [each for each in study.tried() if each.at_rate is not None]
    assert len(measured) == len(offered) > 0
    assert all(each.is_complete for each in measured)
    assert all(each.meets(OBJECTIVE) == (each.settings.batch_size <= 8) for each in measured)
