"""`Search`: an Optuna study over the settings, with successive halving, that a killed tuner resumes.

Settings with which no pod serves are a trial without goodput, and the search goes on. Each trial is measured in rounds of doubling length. After each round the pruner ends the trials whose score is not among the better
half of those that came as far: goodput, reduced where the objective is missed. How much a trial misses it is a constraint of the sampler (TPE). The last part of the time
measures the best settings again, in turns. The study is a journal file next to the results, and the time that was spent is part of it.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import optuna
from optuna.pruners import SuccessiveHalvingPruner
from optuna.samplers import TPESampler
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState

from penstock_tuner.errors import NoTrial, PodFailed
from penstock_tuner.pareto_front import ranked
from penstock_tuner.record import StudyRecord, TriedSettings
from penstock_tuner.settings import (
    ROUNDS,
    LoadMeasurement,
    SearchSpace,
    TunedSettings,
    TuningObjective,
)

FIRST_TRIALS = 8
"""Trials at random, before the sampler uses what it has learnt."""
FINAL_SHARE = 0.4
"""Share of the time, at its end, in which the best settings are measured again: the best of many noisy measurements is partly luck."""
FINALISTS = 4
"""Settings that are measured again: the best so far, so that others move up where measuring again shows luck."""
SEEDS = 2**32
"""Number of seeds that the sampler takes."""
DEFAULT_BATCH_SIZE, DEFAULT_QUEUE_DELAY_MILLISECONDS = 64, 5
"""`batching` of a pool that does not set it, so that a short search is not worse than no search."""
SPENT, TRIED = "spent_seconds", "tried"
"""Names of attributes of the study and of its trials."""
NOTHING_SERVED = LoadMeasurement(1.0, 0, 0, 0, 0.0, 0.0)
"""Figures of settings with which no pod serves."""
MISSED = "missed"
"""Name of the constraint: points by which a trial misses the objective, not positive if it meets it."""

Measure = Callable[[TunedSettings, float], Awaitable[LoadMeasurement]]
"""Measures settings for some seconds. Raises `PodFailed` where no pod serves with them."""
MeasureAtRate = Callable[[TunedSettings, float, float], Awaitable[LoadMeasurement]]
"""Measures settings for some seconds under an open loop that is no faster than the goodput given last."""


class _Loads(NamedTuple):
    """How settings are measured."""

    closed: Measure
    offered: MeasureAtRate | None


@dataclass(frozen=True, slots=True)
class SearchPlan:
    """What is searched, and for how long."""

    space: SearchSpace
    objective: TuningObjective
    seconds: float
    """Time for all measurements and starts, over all runs of the same study."""
    round_seconds: float
    """Length of the first round of a trial."""
    seed: int = 1


class Search:
    """A resumable search."""

    def __init__(self, journal: Path, name: str, plan: SearchPlan) -> None:
        """Open the study `name` in a journal file, or create it."""
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._plan = plan
        self._study = optuna.create_study(
            storage=JournalStorage(JournalFileBackend(str(journal))),
            study_name=name,
            load_if_exists=True,
            direction="maximize",
            pruner=SuccessiveHalvingPruner(min_resource=1, reduction_factor=2),
        )
        for trial in self._study.get_trials(states=(TrialState.RUNNING,)):  # of a killed tuner
            self._study.tell(trial.number, state=TrialState.FAIL)
        self._space = covering(plan.space, self.tried())
        self._seed_sampler()

    @property
    def spent_seconds(self) -> float:
        """Time that all runs of this study have spent."""
        return float(self._study.user_attrs.get(SPENT, 0.0))

    def restore(self, record: StudyRecord, fresh: int) -> bool:
        """Take the trials of an earlier study; return whether they are used: they must be of this study, which has none yet.

        `fresh` differs for each process that takes the record, which lacks a trial with which a process was killed: each draws other settings.
        """
        if record.study != self._study.study_name or self._study.trials:
            return False
        self._space = covering(self._space, record.tried)
        for tried in record.tried:
            self._study.enqueue_trial(tried.settings.as_json())
            trial = self._study.ask()
            suggested(trial, self._space)
            for number, score in enumerate(tried.rounds):
                trial.report(score, ROUNDS if tried.again else number + 1)
            self._end(trial, tried)
        self._study.set_user_attr(SPENT, record.spent_seconds)
        self._seed_sampler(fresh)
        return True

    def _seed_sampler(self, fresh: int = 0) -> None:
        """Seed by the trials so far: with one seed a study that continues would draw the settings of its beginning again."""
        seed = (self._plan.seed + len(self._study.trials) + fresh) % SEEDS
        self._study.sampler = TPESampler(seed=seed, n_startup_trials=FIRST_TRIALS)

    async def run(
        self,
        measure: Measure,
        clock: Callable[[], float],
        report: Callable[[TriedSettings, float], None],
        measure_at_rate: MeasureAtRate | None = None,
    ) -> None:
        """Try settings until the time is spent; `report` gets each trial and the seconds that were spent."""
        if not self.tried():
            self._study.enqueue_trial(defaults(self._space))
        before, began = self.spent_seconds, clock()
        while self.spent_seconds < self._plan.seconds:
            tried = await self._try(_Loads(measure, measure_at_rate), self._finalist())
            self._study.set_user_attr(SPENT, before + clock() - began)
            report(tried, self.spent_seconds)

    def tried(self) -> list[TriedSettings]:
        """Return all settings that were measured, in order."""
        ended = self._study.get_trials(states=(TrialState.COMPLETE, TrialState.PRUNED))
        return [TriedSettings.from_json(each.user_attrs[TRIED]) for each in ended if TRIED in each.user_attrs]  # fmt: skip

    def ended(self) -> list[TriedSettings]:
        """Return `tried`.

        Raises:
            NoTrial: there is none.
            PodFailed: no pod served with any of the settings.
        """
        tried = self.tried()
        if tried and all(each.failure for each in tried):
            raise PodFailed(f"no pod served in any of {len(tried)} trials: {tried[-1].failure}")
        if not tried:
            raise NoTrial(
                f"no trial has ended, and {self.spent_seconds:.0f} of {self._plan.seconds:.0f} s are spent:"
                " give more --minutes, or another --folder"
            )
        return tried

    def _finalist(self) -> TunedSettings | None:
        """Return that of the best settings which has been measured least, if there is a choice one that the last pod can run.

        None before the last part of the time, or if no settings meet the objective.
        """
        if self.spent_seconds < (1 - FINAL_SHARE) * self._plan.seconds:
            return None
        tried = self.tried()
        best = [each.settings for each in ranked(tried, self._plan.objective)[:FINALISTS]]
        counts = Counter(each.settings for each in tried)
        pod = tried[-1].settings.process if tried else None
        return min(best, key=lambda each: (counts[each], each.process != pod), default=None)

    async def _try(self, loads: _Loads, finalist: TunedSettings | None) -> TriedSettings:
        """Measure a finalist once more, or what the sampler suggests."""
        if finalist is not None:
            self._study.enqueue_trial(finalist.as_json())
        trial = self._study.ask()
        settings = suggested(trial, self._space)
        rounds = range(ROUNDS) if finalist is None else range(ROUNDS - 1, ROUNDS)
        scores: list[float] = []
        try:
            tried = await self._measured(trial, settings, rounds, scores, loads)
        except PodFailed as error:
            tried = TriedSettings(settings, NOTHING_SERVED, (0.0,), failure=str(error))
            trial.report(0.0, rounds.start + len(scores) + 1)
        self._end(trial, tried)
        return tried

    async def _measured(
        self,
        trial: Any,
        settings: TunedSettings,
        rounds: range,
        scores: list[float],
        loads: _Loads,
    ) -> TriedSettings:
        """Measure round after round, until the trial is pruned; `scores` gets that of each. Raises `PodFailed`."""
        for number in rounds:
            length = self._plan.round_seconds * 2**number
            measured = await loads.closed(settings, length)
            scores.append(self._plan.objective.score(measured))
            trial.report(scores[-1], number + 1)
            if number + 1 < ROUNDS and trial.should_prune():
                break
        tried = TriedSettings(settings, measured, tuple(scores), again=rounds.start > 0)
        if loads.offered is not None and tried.is_complete and tried.meets(self._plan.objective):
            at_rate = await loads.offered(settings, length, measured.goodput)
            tried = replace(tried, at_rate=at_rate)
        return tried

    def _end(self, trial: Any, tried: TriedSettings) -> None:
        """End a trial: one that did not reach the last round was pruned."""
        trial.set_user_attr(TRIED, tried.as_json())
        trial.set_constraint(MISSED, self._plan.objective.percent - 100 * tried.attainment)
        self._study.tell(
            trial,
            tried.measurement.goodput if tried.is_complete else None,
            state=TrialState.COMPLETE if tried.is_complete else TrialState.PRUNED,
        )


def covering(space: SearchSpace, tried: Iterable[TriedSettings]) -> SearchSpace:
    """Return the space with all caps that were tried: the rows that memory holds differ from start to start, and a pod clamps a cap to its own."""
    largest = max((each.settings.batch_size for each in tried), default=1)
    return replace(space, max_batch_size=max(space.max_batch_size, largest))


def defaults(space: SearchSpace) -> dict[str, int]:
    """Return the settings of a pool that sets none, as far as the space has them: they are tried first."""
    chosen = {"batch_size": min(DEFAULT_BATCH_SIZE, space.max_batch_size)}
    if space.max_queue_delay_milliseconds is not None:
        window = min(DEFAULT_QUEUE_DELAY_MILLISECONDS, space.max_queue_delay_milliseconds)
        chosen["queue_delay_milliseconds"] = window
    return chosen


def suggested(trial: Any, space: SearchSpace) -> TunedSettings:
    """Return the settings that the sampler suggests for an Optuna trial."""
    size = trial.suggest_int("batch_size", 1, space.max_batch_size, log=True)
    tokens = trial.suggest_categorical("batched_tokens", space.batched_tokens) if space.batched_tokens else None  # fmt: skip
    return TunedSettings(
        batch_size=size,
        queue_delay_milliseconds=(
            None
            if space.max_queue_delay_milliseconds is None
            else trial.suggest_int(
                "queue_delay_milliseconds", 0, space.max_queue_delay_milliseconds
            )
        ),
        backend=trial.suggest_categorical("backend", space.backends) if space.backends else None,
        threads=trial.suggest_categorical("threads", space.threads) if space.threads else None,
        discipline=(
            trial.suggest_categorical("discipline", space.disciplines)
            if space.disciplines
            else None
        ),
        dtype=trial.suggest_categorical("dtype", space.dtypes) if space.dtypes else None,
        batched_tokens=tokens,
    )
