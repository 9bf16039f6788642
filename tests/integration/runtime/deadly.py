"""A model that takes its engine down: its error is one that no engine may swallow."""

from penstock_runtime.engine.model import Model
from penstock_runtime.models.emulated import EmulatedAccelerator
from penstock_runtime.request import Tensor


class Deadly(EmulatedAccelerator):
    """Answers as the emulated accelerator, until a row begins with 13."""

    def run(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        if bool((inputs["INPUT"][:, 0] == 13).any()):
            raise SystemExit("thirteen")
        return super().run(inputs)


def create() -> Model:
    return Deadly(0.001, 0.0, 8, 16)
