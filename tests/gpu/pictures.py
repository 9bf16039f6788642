"""The picture of a run: shares of the bandwidth, one-shot rates, latencies of streams, and the service curve."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.gpu.table import Records


def draw(records: Records, title: str, file: Path) -> str:
    """Write the picture and return a line that says so, or why there is none."""
    try:
        import matplotlib as mpl
    except ImportError:
        return "no picture: matplotlib is not installed"
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    series = {name: record["series"] for name, record in records.items()}
    figure, ((shares, rates), (streams, curve)) = plt.subplots(2, 2, figsize=(13, 9))
    _shares(shares, series.get("generation", {}))
    _rates(rates, series.get("one_shot", {}))
    _streams(streams, series.get("served", {}))
    _curve(curve, series.get("law", {}).get("curve"))
    figure.suptitle(title)
    figure.tight_layout()
    figure.savefig(file, dpi=110)
    plt.close(figure)
    return f"picture: {file}"


def _shares(axes: Any, series: Mapping[str, Any]) -> None:
    axes.set_title("decode: share of measured bandwidth, by batch size")
    shares: dict[str, float] = series.get("share_of_bandwidth", {})
    axes.bar(list(shares), list(shares.values()))
    axes.set_ylim(0, 1)


def _rates(axes: Any, series: Mapping[str, Any]) -> None:
    axes.set_title("one-shot: rows a second, by batch size (dashed: raw torch)")
    for name, by_batch in series.items():
        ours, raw = zip(*by_batch.values(), strict=True)
        (drawn,) = axes.plot(list(by_batch), ours, marker="o", label=name)
        axes.plot(list(by_batch), raw, linestyle="--", color=drawn.get_color())
    if series:
        axes.set_yscale("log")
        axes.legend()


def _streams(axes: Any, series: Mapping[str, Any]) -> None:
    axes.set_title("streams: share of them within a latency")
    for what, by_placement in series.items():
        for placement, values in by_placement.items():
            shares = [(at + 1) / len(values) for at in range(len(values))]
            axes.step([1000 * value for value in sorted(values)], shares, label=f"{what}, {placement}")  # fmt: skip
    if series:
        axes.set_xscale("log")
        axes.set_xlabel("ms")
        axes.legend()


def _curve(axes: Any, curve: Mapping[str, Any] | None) -> None:
    axes.set_title("service curve: fitted line and measured sizes")
    if curve is None:
        return
    rows = [int(size) for size in curve["measured"]]
    axes.plot(rows, [1000 * seconds for seconds in curve["measured"].values()], "o")
    axes.plot([0, max(rows)], [1000 * (curve["a"] + curve["c"] * size) for size in (0, max(rows))])
    axes.set_xlabel("rows")
    axes.set_ylabel("ms")
