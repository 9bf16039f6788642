"""`Search`: an Optuna study over the settings, with successive halving, that a killed tuner resumes.

Each trial is measured in rounds of doubling length. After each round the pruner ends the trials that are not among the better
half of those that came as far. How much a trial misses the objective is a constraint of the sampler (TPE). The study is a journal file
next to the results, and the time that was spent is part of it.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna
from optuna.pruners import SuccessiveHalvingPruner
from optuna.samplers import TPESampler
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState

from penstock_tuner.front import TriedSettings
from penstock_tuner.settings import LoadMeasurement, SearchSpace, TunedSettings, TuningObjective

ROUNDS = 3
FIRST_TRIALS = 8
"""Trials at random, before the sampler uses what it has learnt."""
SPENT, SETTINGS, MEASURED = "spent_seconds", "settings", "measured"
"""Names of attributes in the study."""
MISSED = "missed"
"""Name of the constraint: points by which a trial misses the objective, not positive if it meets it."""

Measure = Callable[[TunedSettings, float], Awaitable[LoadMeasurement]]
"""Measures settings for some seconds."""


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
            sampler=TPESampler(seed=plan.seed, n_startup_trials=FIRST_TRIALS),
            pruner=SuccessiveHalvingPruner(min_resource=1, reduction_factor=2),
        )
        for trial in self._study.get_trials(states=(TrialState.RUNNING,)):  # of a killed tuner
            self._study.tell(trial.number, state=TrialState.FAIL)

    @property
    def spent_seconds(self) -> float:
        """Time that all runs of this study have spent."""
        return float(self._study.user_attrs.get(SPENT, 0.0))

    async def run(
        self,
        measure: Measure,
        clock: Callable[[], float],
        report: Callable[[TriedSettings, float], None],
    ) -> None:
        """Try settings until the time is spent; `report` gets each trial and the share of the time, 0 to 1."""
        before, began = self.spent_seconds, clock()
        while self.spent_seconds < self._plan.seconds:
            tried = await self._try(measure)
            self._study.set_user_attr(SPENT, before + clock() - began)
            report(tried, min(self.spent_seconds / self._plan.seconds, 1.0))

    def tried(self) -> list[TriedSettings]:
        """Return all settings that were measured, in order."""
        return [
            TriedSettings(
                TunedSettings(**trial.user_attrs[SETTINGS]),
                LoadMeasurement(**trial.user_attrs[MEASURED]),
            )
            for trial in self._study.get_trials(states=(TrialState.COMPLETE, TrialState.PRUNED))
            if MEASURED in trial.user_attrs
        ]

    async def _try(self, measure: Measure) -> TriedSettings:
        trial = self._study.ask()
        settings = suggested(trial, self._plan.space)
        trial.set_user_attr(SETTINGS, settings.as_json())
        state, measured = TrialState.COMPLETE, None
        for number in range(ROUNDS):
            measured = await measure(settings, self._plan.round_seconds * 2**number)
            trial.report(measured.goodput, number + 1)
            if number + 1 < ROUNDS and trial.should_prune():
                state = TrialState.PRUNED
                break
        assert measured is not None  # noqa: S101 - ROUNDS is positive
        figures = {name: getattr(measured, name) for name in LoadMeasurement.__slots__}
        trial.set_user_attr(MEASURED, figures)
        trial.set_constraint(MISSED, self._plan.objective.percent - 100 * measured.attainment)
        self._study.tell(
            trial, measured.goodput if state is TrialState.COMPLETE else None, state=state
        )
        return TriedSettings(settings, measured)


def suggested(trial: Any, space: SearchSpace) -> TunedSettings:
    """Return the settings that the sampler suggests for an Optuna trial."""
    return TunedSettings(
        batch_size=trial.suggest_int("batch_size", 1, space.max_batch_size, log=True),
        queue_delay_milliseconds=trial.suggest_int(
            "queue_delay_milliseconds", 0, space.max_queue_delay_milliseconds
        ),
        backend=trial.suggest_categorical("backend", space.backends) if space.backends else None,
        threads=trial.suggest_categorical("threads", space.threads) if space.threads else None,
    )
