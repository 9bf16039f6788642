"""What the tuner is compared on: three models, and a space small enough to measure all of it."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from penstock_tuner.settings import SearchSpace, TunedSettings
from tests.bench.claims.one_shot import encoder_request, subjects
from tests.bench.encoders.subjects import ENCODER
from tests.bench.http.plan import BUILD

FOLDER: Final = BUILD / "tuner"
CLIENTS: Final = 12
SPACE: Final = SearchSpace(max_batch_size=16, max_queue_delay_milliseconds=4)


@dataclass(frozen=True, slots=True)
class TunedModel:
    """A model, and the environment of its pods."""

    name: str
    environ: dict[str, str]
    request: Path | None
    """File with a request; None: by the model's metadata."""

    @property
    def folder(self) -> Path:
        """Where its results are kept."""
        return FOLDER / self.name.replace(" ", "-")


def settings() -> Iterator[TunedSettings]:
    """Yield every setting of the space."""
    for batch in range(1, SPACE.max_batch_size + 1):
        for delay in range((SPACE.max_queue_delay_milliseconds or 0) + 1):
            yield TunedSettings(batch, delay)


def models() -> list[TunedModel]:
    """Return the models: a tiny network, an encoder of two layers, and an accelerator that sleeps 40 + 5 b ms."""
    ENCODER.folder(BUILD / "models")  # written unless it is there
    tuned = []
    for subject in subjects():
        variables = {"PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1", **subject.variables(None)}
        request = encoder_request(FOLDER) if subject.name == "encoder" else None
        tuned.append(TunedModel(subject.name, variables, request))
    return tuned
