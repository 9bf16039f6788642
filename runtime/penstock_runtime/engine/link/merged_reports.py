"""The report of several engines as that of one device, which runs as many batches at once. Pure.

A batch of `b` rows on one of `n` engines counts as `1/n` batch of `n * b` rows that takes the same time. Curve, batch cap
and utilization then describe the whole pod: a batch of `n * b` rows takes the time of `b` rows on each engine.
"""

from collections.abc import Sequence

from penstock_api.pod_contract import SUMS_PER_SIZE
from penstock_runtime.engine.messages import EngineReport
from penstock_runtime.engine.service_time import ServiceTimeSums


def cap_shares(cap: int, engines: int) -> list[int]:
    """Return each engine's part of `cap`, in rows; an engine without a part gets no request."""
    least, more = divmod(cap, engines)
    return [least + (engine < more) for engine in range(engines)]


def merged(reports: Sequence[EngineReport]) -> EngineReport:
    """Return the report of engines with `reports` as that of one device."""
    engines = len(reports)
    generations = {report.generation for report in reports}
    return EngineReport(
        waiting=sum(report.waiting for report in reports),
        running=sum(report.running for report in reports),
        generation=min(generations),
        converging=len(generations) > 1 or any(report.converging for report in reports),
        batch_cap_bound=engines * min(report.batch_cap_bound for report in reports),
        busy_seconds=sum(report.busy_seconds for report in reports) / engines,
        curve=_merged_sums([report.curve for report in reports]),
    )


def _merged_sums(curves: Sequence[ServiceTimeSums]) -> ServiceTimeSums:
    engines = len(curves)
    return ServiceTimeSums(
        batches=sum(curve.batches for curve in curves) / engines,
        cost_units=sum(curve.cost_units for curve in curves),
        cost_units_squared=sum(curve.cost_units_squared for curve in curves) * engines,
        seconds=sum(curve.seconds for curve in curves) / engines,
        cost_unit_seconds=sum(curve.cost_unit_seconds for curve in curves),
        seconds_squared=sum(curve.seconds_squared for curve in curves) / engines,
        by_size=_merged_sizes(curves),
    )


def _merged_sizes(curves: Sequence[ServiceTimeSums]) -> tuple[float, ...]:
    """Return the sums by size class, in which each class moves to that of `engines` times its mean size."""
    engines = len(curves)
    totals: list[float] = []
    for curve in curves:
        for at in range(0, len(curve.by_size), SUMS_PER_SIZE):
            batches, rows, seconds = curve.by_size[at : at + SUMS_PER_SIZE]
            if not batches:
                continue
            begin = SUMS_PER_SIZE * (round(engines * rows / batches) - 1).bit_length()
            totals.extend([0.0] * (begin + SUMS_PER_SIZE - len(totals)))
            for place, value in enumerate((batches / engines, rows, seconds / engines)):
                totals[begin + place] += value
    return tuple(totals)
