"""Chart of the encoder bench: rows a second by connections, compared with raw torch in the same run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl

from tests.bench.http.chart import plot_servers

mpl.use("Agg")


def draw(results: Mapping[str, Mapping[str, Any]], folder: Path) -> Path:
    """Write the chart of each subject's figures (`rates` and `raw`) below `folder` and return its file."""
    from matplotlib import pyplot as plt

    figure, panels = plt.subplots(1, len(results), figsize=(9 * len(results), 6), squeeze=False)
    for axes, (name, figures) in zip(panels[0], results.items(), strict=True):
        plot_servers(axes, figures["rates"], f"{name}: rows a second")
        for way, rate in figures["raw"].items():
            axes.axhline(rate, linestyle="--", linewidth=0.8, color="grey")
            left = (
                axes.get_yaxis_transform()
            )  # of the panel's width, whatever connections were measured
            axes.text(0.01, rate, f"raw torch: {way}", fontsize=6, color="grey", transform=left)
        axes.legend(fontsize=7, loc="lower right")
    figure.tight_layout()
    file = folder / "encoders.png"
    figure.savefig(file, dpi=120)
    plt.close(figure)
    return file
