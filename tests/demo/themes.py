"""Colors of the demo's picture on a light and on a dark page."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Theme:
    """Colors of one picture, which has no background of its own."""

    name: str
    text: str
    muted: str
    grid: str
    load: str
    cap: str
    replicas: str
    latency: str
    objective: str


LIGHT: Final = Theme(
    name="light",
    text="#1f2328",
    muted="#59636e",
    grid="#d1d9e0",
    load="#59636e",
    cap="#0969da",
    replicas="#1a7f37",
    latency="#8250df",
    objective="#cf222e",
)
DARK: Final = Theme(
    name="dark",
    text="#f0f6fc",
    muted="#9198a1",
    grid="#3d444d",
    load="#9198a1",
    cap="#4493f8",
    replicas="#3fb950",
    latency="#ab7df8",
    objective="#f85149",
)
THEMES: Final = (LIGHT, DARK)
