"""The result of a search: the Pareto front, as a table, as JSON, and as a policy whose candidate has the best settings. Pure."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from penstock_api import names
from penstock_tuner.settings import LoadMeasurement, TunedSettings, TuningObjective

HEADINGS = ("batch", "delay ms", "backend", "threads", "goodput/s", "on time", "p50 ms", "p99 ms")


@dataclass(frozen=True, slots=True)
class TriedSettings:
    """Settings with their longest measurement."""

    settings: TunedSettings
    measurement: LoadMeasurement


def front(tried: Sequence[TriedSettings], objective: TuningObjective) -> list[TriedSettings]:
    """Return the settings that meet the objective and that no others surpass in goodput and p99, best goodput first."""
    meeting = [each for each in tried if each.measurement.meets(objective)]
    ranked = sorted(
        meeting, key=lambda each: (-each.measurement.goodput, each.measurement.p99_milliseconds)
    )
    chosen: list[TriedSettings] = []
    for each in ranked:
        if not chosen or each.measurement.p99_milliseconds < chosen[-1].measurement.p99_milliseconds:  # fmt: skip
            chosen.append(each)
    return chosen


def table(shown: Sequence[TriedSettings]) -> str:
    """Return a table with a line for each of the settings."""
    rows = [HEADINGS, *map(_cells, shown)]
    widths = [max(len(row[index]) for row in rows) for index in range(len(HEADINGS))]
    lines = (
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    )
    return "\n".join(lines)


def as_json(tried: Sequence[TriedSettings], objective: TuningObjective) -> dict[str, Any]:
    """Return everything that was tried, and the front."""
    return {
        "objective": asdict(objective),
        "front": [_figures(each) for each in front(tried, objective)],
        "tried": [_figures(each) for each in tried],
    }


def candidate_policy(best: TunedSettings, name: str) -> dict[str, Any]:
    """Return an InferencePolicy that evaluates the live settings in shadow."""
    batching = {
        "size": {"max": best.batch_size},
        "maxQueueDelayMilliseconds": best.queue_delay_milliseconds,
    }
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.POLICY_KIND,
        "metadata": {"name": name},
        "spec": {"candidate": {"defaults": {"batching": batching}}},
    }


def _cells(each: TriedSettings) -> tuple[str, ...]:
    settings, measured = each.settings, each.measurement
    return (
        f"{settings.batch_size}",
        f"{settings.queue_delay_milliseconds}",
        settings.backend or "-",
        "-" if settings.threads is None else f"{settings.threads}",
        f"{measured.goodput:.1f}",
        f"{100 * measured.attainment:.2f} %",
        f"{measured.p50_milliseconds:.1f}",
        f"{measured.p99_milliseconds:.1f}",
    )


def _figures(each: TriedSettings) -> dict[str, Any]:
    measured = each.measurement
    return {
        **each.settings.as_json(),
        **asdict(measured),
        "goodput": measured.goodput,
        "attainment": measured.attainment,
    }
