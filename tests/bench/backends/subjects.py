"""Subjects of the bench of backends: a tiny network, a convolution network, an encoder and an embedder, random weights."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch

from penstock_api.types.model import ModelBackend, ModelSpec
from tests.bench.encoders.subjects import EMBEDDER, ENCODER
from tests.bench.encoders.subjects import Subject as Encoder

FEATURES, PIXELS, MAX_ROWS = 64, 64, 512


@dataclass(frozen=True)
class Subject:
    """A model in a file or directory below a root."""

    name: str
    task: str
    path: str
    write: Callable[[Path], None]

    def spec(self, backend: ModelBackend) -> ModelSpec:
        """Return the model's spec."""
        claim = {"claimName": "models", "path": self.path}
        source = {"type": "PersistentVolumeClaim", "persistentVolumeClaim": claim}
        return ModelSpec.model_validate({"task": self.task, "source": source, "backend": backend})


def _program(module: torch.nn.Module, *shape: int) -> Callable[[Path], None]:
    def write(file: Path) -> None:
        rows = torch.export.Dim("rows", max=MAX_ROWS)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.export.export(
                module.eval(), (torch.ones(3, *shape),), dynamic_shapes=({0: rows},)
            )
            torch.export.save(program, file)

    return write


def _network() -> torch.nn.Module:
    nn: Any = torch.nn
    return nn.Sequential(nn.Linear(FEATURES, 64), nn.ReLU(), nn.Linear(64, 16))  # type: ignore[no-any-return]


def _convolutions() -> torch.nn.Module:
    nn: Any = torch.nn
    layers = [
        part
        for width, wider in ((3, 32), (32, 64), (64, 128))
        for part in (
            nn.Conv2d(width, wider, 3, stride=2, padding=1),
            nn.BatchNorm2d(wider),
            nn.ReLU(),
        )
    ]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10))  # type: ignore[no-any-return]


def _encoder(encoder: Encoder) -> Callable[[Path], None]:
    return lambda folder: void(encoder.folder(folder.parent))


def void(_: object) -> None:
    """Drop a value."""


SUBJECTS: Final = (
    Subject("network", "Tensor", "network.pt2", _program(_network(), FEATURES)),
    Subject(
        "convolutions", "Tensor", "convolutions.pt2", _program(_convolutions(), 3, PIXELS, PIXELS)
    ),
    Subject("encoder", "Embedding", "encoder", _encoder(ENCODER)),
    Subject("embedder", "Embedding", "embedder", _encoder(EMBEDDER)),
)
