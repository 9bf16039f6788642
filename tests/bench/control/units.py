"""The runs of the bench, divided into units for worker processes."""

from dataclasses import replace
from pathlib import Path

from penstock_operator.observed import SignalSource
from penstock_simulator.scenario import Loss, Routing
from tests.bench.control import ablation, plan, sensitivity
from tests.bench.control.jobs import CLAIRVOYANT, Job, Unit

ABLATION_SEEDS = 2
KINKED, STAIRCASE = replace(plan.SERVICE, knee=16), replace(plan.SERVICE, stair=8)
NOISY = replace(plan.SERVICE, sigma=0.15)
VARIANTS: dict[str, dict[str, object]] = {
    "power-of-two": {"routing": Routing.POWER_OF_TWO},
    "least request": {"routing": Routing.LEAST_REQUEST},
    "central queue": {"routing": Routing.CENTRAL_QUEUE},
    "20 % of samples lost": {"loss": Loss(share=0.2)},
    "scraped by Prometheus": {"loss": Loss(SignalSource.PROMETHEUS)},
    "10 s late, jitter 2 s": {"loss": Loss(SignalSource.PROMETHEUS, 10.0, 2.0)},
    "15 s late": {"loss": Loss(SignalSource.PROMETHEUS, 15.0)},
    "flat to 16 rows": {"service": KINKED},
    "flat to 16 rows, least request": {"service": KINKED, "routing": Routing.LEAST_REQUEST},
    "steps of 8 rows": {"service": STAIRCASE},
    "batch times vary by 15 %": {"service": NOISY},
    "no signals, minutes 8-10": {"loss": Loss(outages=((480.0, 600.0),))},
}


def cases(size: plan.RunSize, trace: str) -> list[tuple[int, float]]:
    """Return (seed, median cold start) of a trace's runs, the hardest to attain first."""
    return [(seed, cold) for cold in sorted(size.cold_medians, reverse=True) for seed in size.seeds]


def laws(folder: Path, size: plan.RunSize) -> list[Unit]:
    """Return the operator's own laws and the baselines, in every case."""
    return [
        Unit(folder, (Job(trace, size.seconds, law, seed, cold),))
        for trace in plan.TRACES
        for seed, cold in cases(size, trace)
        for law in plan.LAWS
    ]


def settings(folder: Path, size: plan.RunSize) -> list[Unit]:
    """Return the grid of single settings on the traces with a target; each stops at its first miss."""
    return [
        Unit(
            folder,
            tuple(Job(trace, size.seconds, law, *case) for case in cases(size, trace)),
            until_missed=True,
        )
        for trace in plan.AIMED
        for law in plan.settings_of(size)
        if law not in plan.LAWS
    ]


def bounds(folder: Path, size: plan.RunSize) -> list[Unit]:
    """Return the searches for the clairvoyant's schedules."""
    return [
        Unit(
            folder,
            tuple(Job(trace, size.seconds, CLAIRVOYANT, seed, cold) for cold in size.cold_medians),
            caps=size.caps,
        )
        for trace in plan.AIMED
        for seed in size.seeds
    ]


def worlds(folder: Path, size: plan.RunSize) -> dict[str, list[Unit]]:
    """Return the default law under other routings and with bad signals, by name."""
    return {
        name: [
            Unit(folder, (Job(trace, size.seconds, plan.DEFAULT, **different),))  # type: ignore[arg-type]
            for trace in plan.TRACES
        ]
        for name, different in VARIANTS.items()
    }


def changes(folder: Path, size: plan.RunSize) -> dict[tuple[str, float], list[Unit]]:
    """Return the default law with each of its defaults changed by a quarter down and up."""
    return {
        (name, factor): [
            Unit(folder, (Job(trace, size.seconds, plan.DEFAULT, changed=(name, factor)),))
            for trace in plan.AIMED
        ]
        for name in sensitivity.DEFAULTS
        for factor in sensitivity.FACTORS
    }


def ablations(folder: Path, size: plan.RunSize) -> list[Unit]:
    """Return the default law whole and without each of its parts, on every trace with `ABLATION_SEEDS` seeds."""
    return [
        Unit(folder, (Job(trace, size.seconds, plan.DEFAULT, seed, ablated=name),))
        for name in (None, *ablation.PARTS)
        for trace in plan.TRACES
        for seed in size.seeds[:ABLATION_SEEDS]
    ]
