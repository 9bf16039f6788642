"""A model that ends its engine with SystemExit, which an engine must not catch."""

from penstock_runtime.engine.model import Model
from penstock_runtime.models.emulated import EmulatedAccelerator
from penstock_runtime.request import Tensor


class Deadly(EmulatedAccelerator):
    """An emulated accelerator that exits on a row that begins with 13."""

    def run(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        if bool((inputs["INPUT"][:, 0] == 13).any()):
            raise SystemExit("thirteen")
        return super().run(inputs)


def create() -> Model:
    return Deadly(0.001, 0.0, 8, 16)
