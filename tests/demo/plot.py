"""Plot of a demo run: load, queue, batch cap, replicas and latency by second."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from tests.demo.moment import Moment


def draw(moments: Sequence[Moment], file: Path) -> None:
    """Write the picture; its format follows the suffix of `file`."""
    seconds = [moment.second for moment in moments]
    figure, axes = plt.subplots(4, 1, sharex=True, figsize=(10, 10), layout="constrained")
    traffic, control, duty, latency = axes
    traffic.plot(seconds, [moment.rate for moment in moments], label="requests/s sent")
    traffic.plot(seconds, [_or_nan(moment.waiting) for moment in moments], label="waiting requests")
    control.step(
        seconds, [_or_nan(moment.cap) for moment in moments], where="post", label="batch cap"
    )
    control.step(
        seconds, [moment.ready for moment in moments], where="post", label="replicas ready"
    )
    control.step(
        seconds,
        [moment.wanted for moment in moments],
        where="post",
        ls=":",
        label="replicas wanted",
    )
    duty.plot(seconds, [100 * _or_nan(moment.duty) for moment in moments], label="GPU duty, %")
    duty.set_ylim(0, 105)
    latency.semilogy(seconds, [_or_nan(moment.p99) for moment in moments], label="p99 latency, ms")
    latency.set_xlabel("seconds")
    _name_acts(traffic, moments)
    for axis in axes:
        axis.legend(loc="upper right")
        axis.grid(alpha=0.3)
    figure.suptitle("Penstock demo: batch cap and replicas under load")
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=110)
    plt.close(figure)


def _name_acts(axis: Axes, moments: Sequence[Moment]) -> None:
    for before, now in pairwise([None, *moments]):
        if now is not None and (before is None or now.act != before.act):
            at = (now.second, 1.02)
            axis.annotate(now.act, at, xycoords=("data", "axes fraction"), fontsize=7, rotation=15)
            for each in axis.figure.axes:
                each.axvline(now.second, color="grey", lw=0.8, ls="--")


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else float(value)
