"""A model that returns its input, with any number of columns."""

from penstock_runtime.engine.model import ModelInfo, TensorSpec
from penstock_runtime.request import Tensor


class IdentityModel:
    """`Y = X`."""

    info = ModelInfo(
        name="wide",
        platform="pytorch_module",
        backend="cpu",
        inputs=(TensorSpec("X", "FP32", (-1, -1)),),
        outputs=(TensorSpec("Y", "FP32", (-1, -1)),),
        max_rows=4096,
    )

    def run(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return the input."""
        return {"Y": inputs["X"]}

    def memory_bound_rows(self) -> int:
        """Return a bound above the limits of any test."""
        return 4096


def create() -> IdentityModel:
    """Return the model."""
    return IdentityModel()
