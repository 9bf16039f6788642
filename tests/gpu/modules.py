"""Models of the GPU tests: they return 2 x + 1 and use a known amount of memory or time."""

import torch

FEATURES = 8
BURNER = "tests.gpu.modules:burner"


class Roomy(torch.nn.Module):
    """A module that needs a given number of MiB per row while it runs."""

    penstock_inputs = (("INPUT", "FP32", [-1, FEATURES]),)
    penstock_outputs = (("OUTPUT", "FP32", [-1, FEATURES]),)

    def __init__(self, mebibytes: int, max_rows: int) -> None:
        super().__init__()
        self._copies = mebibytes * 2**20 // (4 * FEATURES)
        self.penstock_max_rows = max_rows
        self.fitting_rows = max_rows
        """Rows above which `forward` raises an out-of-memory error itself, for a CPU, where none occurs."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return 2 x + 1, computed from the end of a long copy of each row."""
        if x.shape[0] > self.fitting_rows:
            raise torch.OutOfMemoryError(f"{x.shape[0]} rows, {self.fitting_rows} fit")
        return 2 * x.repeat(1, self._copies)[:, -FEATURES:] + 1


class Burner(torch.nn.Module):
    """A module whose time grows with the rows: `depth` products of [rows x tokens, width] with [width, width]."""

    penstock_inputs = Roomy.penstock_inputs
    penstock_outputs = Roomy.penstock_outputs
    penstock_max_rows = 64

    def __init__(self, width: int, tokens: int, depth: int, dtype: torch.dtype) -> None:
        super().__init__()
        self._tokens, self._depth = tokens, depth
        weight = torch.randn(width, width, generator=torch.Generator().manual_seed(0)) / width**0.5
        self.register_buffer("weight", weight.to(dtype))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return 2 x + 1 after the products, whose size stays that of the input."""
        weight = self.get_buffer("weight")
        copies = -(-weight.shape[0] // FEATURES)
        hidden = x.repeat_interleave(self._tokens, 0).repeat(1, copies)[:, : weight.shape[0]]
        hidden = hidden.clamp(-1, 1).to(weight.dtype)
        for _ in range(self._depth):
            hidden = hidden @ weight
        burned = hidden.view(x.shape[0], -1)[:, :1].float()
        return 2 * x + 1 + 0 * burned.clamp(-1, 1).nan_to_num()


def burner(width: str, tokens: str, depth: str, dtype: str) -> Burner:
    """Return a module that multiplies matrices."""
    return Burner(int(width), int(tokens), int(depth), getattr(torch, dtype))
