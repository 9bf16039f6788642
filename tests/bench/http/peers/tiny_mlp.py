"""The tiny MLP that every server of the bench serves: 64 floats in, 16 out. Imports torch and nothing else."""

import torch

FEATURES = 64
HIDDEN = 128
OUTPUTS = 16


def network() -> torch.nn.Module:
    """Return the network with weights that are the same everywhere."""
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(FEATURES, HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, OUTPUTS)
    ).eval()


def create() -> torch.nn.Module:
    """Return it as our runtime loads it."""
    module = network()
    module.penstock_inputs = [("X", "FP32", [-1, FEATURES])]  # type: ignore[assignment]
    module.penstock_outputs = [("Y", "FP32", [-1, OUTPUTS])]  # type: ignore[assignment]
    return module


@torch.inference_mode()
def predict(rows: list[list[float]]) -> list[list[float]]:
    """Return the outputs of a batch of rows, as a plain server would compute them."""
    result: list[list[float]] = create.network(torch.tensor(rows)).tolist()  # type: ignore[attr-defined]
    return result


create.network = network()  # type: ignore[attr-defined]
torch.set_num_threads(1)
