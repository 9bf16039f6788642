"""Chart of the HTTP bench: requests a second by connections, and processor time per request."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl

from tests.bench.http.figures import HttpFigures

mpl.use("Agg")


def draw(figures: HttpFigures, folder: Path) -> Path:
    """Write the chart below `folder` and return its file."""
    from matplotlib import pyplot as plt

    numbers = figures.connections()
    figure, (rates, costs, forming) = plt.subplots(1, 3, figsize=(18, 5))
    for axes, title, figure_of in (
        (rates, "right answers a second", figures.rate),
        (costs, "CPU microseconds a request", figures.cpu_microseconds),
    ):
        by_server = {name: {c: figure_of(name, c) for c in numbers} for name in figures.names()}
        plot_servers(axes, by_server, title)
    forming.plot(list(figures.forming), list(figures.forming.values()), marker="o")
    forming.set(
        title="microseconds to form a batch",
        xlabel="requests waiting",
        xscale="log",
        ylim=(0, None),
    )
    forming.grid(alpha=0.3)
    rates.legend(fontsize=7)
    figure.tight_layout()
    file = folder / "http.png"
    figure.savefig(file, dpi=120)
    plt.close(figure)
    return file


def plot_servers(axes: Any, by_server: Mapping[str, Mapping[int, float]], title: str) -> None:
    """Plot a figure of each server by connections into matplotlib's `axes`, ours the thicker."""
    for name, by in by_server.items():
        width = 2.5 if name.startswith("penstock") else 1.0
        axes.plot(list(by), list(by.values()), marker="o", label=name, linewidth=width)
    axes.set(title=title, xlabel="connections", xscale="log", yscale="log")
    axes.grid(alpha=0.3)
