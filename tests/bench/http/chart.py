"""The bench's chart: requests a second by connections, and processor time a request."""

from pathlib import Path

import matplotlib as mpl

from tests.bench.http.figures import Figures

mpl.use("Agg")


def draw(found: Figures, folder: Path) -> Path:
    """Write the chart below `folder` and return its file."""
    from matplotlib import pyplot as plt

    numbers = found.connections()
    figure, (rates, costs, forming) = plt.subplots(1, 3, figsize=(18, 5))
    for name in found.names():
        style = {"linewidth": 2.5} if name.startswith("penstock") else {"linewidth": 1.0}
        rates.plot(numbers, [found.rate(name, c) for c in numbers], marker="o", label=name, **style)
        costs.plot(numbers, [found.cpu_microseconds(name, c) for c in numbers], marker="o", **style)
    for axes, title in ((rates, "right answers a second"), (costs, "CPU microseconds a request")):
        axes.set(title=title, xlabel="connections", xscale="log", yscale="log")
        axes.grid(alpha=0.3)
    forming.plot(list(found.forming), list(found.forming.values()), marker="o")
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
