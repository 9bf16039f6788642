"""The result of a search: the Pareto front, as a table, as JSON, and as a policy whose candidate has the best settings. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import reduce
from typing import Any

from penstock_api import names
from penstock_tuner.record import TriedSettings
from penstock_tuner.settings import LoadMeasurement, TunedSettings, TuningObjective

CHOICES = ("backend", "threads", "discipline", "dtype", "batched_tokens")
"""Settings that have a column only where they were searched."""


def front(tried: Sequence[TriedSettings], objective: TuningObjective) -> list[TriedSettings]:
    """Return the settings that meet the objective and that no others surpass in goodput and p99, best goodput first."""
    chosen: list[TriedSettings] = []
    for each in ranked(tried, objective):
        if not chosen or each.measurement.p99_milliseconds < chosen[-1].measurement.p99_milliseconds:  # fmt: skip
            chosen.append(each)
    return chosen


def ranked(tried: Sequence[TriedSettings], objective: TuningObjective) -> list[TriedSettings]:
    """Return the settings that meet the objective, best goodput first.

    Those of which no trial was complete only count if there are no others: the best of many short measurements is luck.
    """
    meeting = [each for each in joined(tried) if each.meets(objective)]
    complete = [each for each in meeting if each.is_complete]
    return sorted(
        complete or meeting,
        key=lambda each: (-each.measurement.goodput, each.measurement.p99_milliseconds),
    )


def joined(tried: Sequence[TriedSettings]) -> list[TriedSettings]:
    """Return the trials of the same settings as one: the failed one, or else all complete ones together, or else all."""
    by_settings: dict[TunedSettings, list[TriedSettings]] = {}
    for each in tried:
        by_settings.setdefault(each.settings, []).append(each)
    return [_one(trials) for trials in by_settings.values()]


def _one(trials: Sequence[TriedSettings]) -> TriedSettings:
    failed = next((each for each in trials if each.failure), None)
    return failed or reduce(_joined, [each for each in trials if each.is_complete] or trials)


def _joined(first: TriedSettings, second: TriedSettings) -> TriedSettings:
    rates = [each for each in (first.at_rate, second.at_rate) if each is not None]
    return replace(
        first,
        measurement=first.measurement.joined(second.measurement),
        at_rate=reduce(LoadMeasurement.joined, rates) if rates else None,
    )


def nearest(tried: Sequence[TriedSettings]) -> TriedSettings:
    """Return the settings that miss the objective least, such with which a pod served if there are any. `tried` is not empty."""
    return max(joined(tried), key=lambda each: (not each.failure, each.attainment, each.measurement.goodput))  # fmt: skip


def rows(shown: Sequence[TriedSettings]) -> list[tuple[str, ...]]:
    """Return the headings, and the cells of each of the settings."""
    searched = [name for name in CHOICES if any(getattr(each.settings, name) is not None for each in shown)]  # fmt: skip
    offered = any(each.at_rate is not None for each in shown)
    waits = any(each.settings.queue_delay_milliseconds is not None for each in shown)
    window = ("delay ms",) if waits else ()
    heads = ("batch", *window, *searched, "goodput/s", "on time", "p50 ms", "p99 ms")
    more = ("p99 ms at the rate",) if offered else ()
    return [(*heads, *more), *(_cells(each, searched, offered=offered) for each in shown)]


def failures(tried: Sequence[TriedSettings]) -> list[str]:
    """Return a sentence each on settings with which no pod served, and on those under which most requests failed, if there are any."""
    failed = [each for each in tried if each.failure]
    refused = [each for each in tried if each.measurement.failed > each.measurement.completed]
    sentences = list[str]()
    if failed:
        sentences.append(f"no pod served in {len(failed)} of {len(tried)} trials; the last settings were {_settings(failed[-1])}: {failed[-1].failure}")  # fmt: skip
    if refused:
        sentences.append(f"most requests failed in {len(refused)} of {len(tried)} trials; the last settings were {_settings(refused[-1])}: {refused[-1].measurement.refusal}")  # fmt: skip
    return sentences


def _settings(each: TriedSettings) -> str:
    return ", ".join(f"{key} {value}" for key, value in each.settings.as_json().items())


def table(shown: Sequence[TriedSettings]) -> str:
    """Return a table with a line for each of the settings."""
    lines = rows(shown)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True))
        for line in lines
    )


def as_json(tried: Sequence[TriedSettings], objective: TuningObjective) -> dict[str, Any]:
    """Return everything that was tried, and the front."""
    return {
        "objective": asdict(objective),
        "front": [figures(each) for each in front(tried, objective)],
        "tried": [figures(each) for each in tried],
    }


def candidate_policy(
    best: TunedSettings, name: str, selectors: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return an InferencePolicy that evaluates the live settings in shadow on the pools of `selectors`, or on all."""
    batching: dict[str, Any] = {"size": {"max": best.batch_size}}
    if best.queue_delay_milliseconds is not None:
        batching["maxQueueDelayMilliseconds"] = best.queue_delay_milliseconds
    if best.batched_tokens is not None:
        batching["maxBatchedTokens"] = best.batched_tokens
    if best.discipline is not None:
        batching["discipline"] = best.discipline
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.POLICY_KIND,
        "metadata": {"name": name},
        "spec": {**(selectors or {}), "candidate": {"defaults": {"batching": batching}}},
    }


def figures(each: TriedSettings) -> dict[str, Any]:
    """Return settings and figures in JSON; `at_rate` has those under the open loop."""
    under_rate = {} if each.at_rate is None else {"at_rate": _measured(each.at_rate)}
    failure = {"failure": each.failure} if each.failure else {}
    return {**each.settings.as_json(), **_measured(each.measurement), **under_rate, **failure}


def _measured(measured: LoadMeasurement) -> dict[str, Any]:
    return {
        **asdict(measured),
        "goodput": measured.goodput,
        "attainment": measured.attainment,
    }


def _cells(each: TriedSettings, searched: Sequence[str], *, offered: bool) -> tuple[str, ...]:
    settings, measured = each.settings, each.measurement
    at_rate = "-" if each.at_rate is None else f"{each.at_rate.p99_milliseconds:.1f}"
    return (
        f"{settings.batch_size}",
        *(
            ()
            if settings.queue_delay_milliseconds is None
            else (f"{settings.queue_delay_milliseconds}",)
        ),
        *(f"{getattr(settings, name) or '-'}" for name in searched),
        f"{measured.goodput:.1f}",
        f"{100 * each.attainment:.2f} %",
        f"{measured.p50_milliseconds:.1f}",
        f"{measured.p99_milliseconds:.1f}",
        *((at_rate,) if offered else ()),
    )
