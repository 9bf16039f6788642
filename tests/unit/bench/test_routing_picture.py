"""The picture of both routings has a line of GPUs and of latency for each, and their totals."""

from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from tests.bench.gateway import picture
from tests.demo.themes import THEMES, Theme

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, picture.RoutedRun]:
    file = tmp_path_factory.mktemp("trace") / "steady.txt"
    file.write_text("\n".join(str(second) for second in np.arange(0, 120, 0.5)))
    return {name: picture.routed(Path(file), routing) for name, routing in picture.WAYS.items()}


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_both_ways_are_drawn(runs: dict[str, picture.RoutedRun], theme: Theme) -> None:
    root = ET.fromstring(picture.svg(runs, "steady", theme))  # noqa: S314
    strokes = [path.get("stroke") for path in root.iter(f"{SVG}path")]
    assert strokes.count(theme.latency) == strokes.count(theme.replicas) == 2
    texts = " ".join(text.text or "" for text in root.iter(f"{SVG}text"))
    for run in runs.values():
        assert f"{run.summary.gpu_hours:.3g}" in texts
