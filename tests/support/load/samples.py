"""Sample requests with their expected answers, computed independently of the emulated accelerator."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

DISTINCT_SAMPLES = 64
"""Number of requests prepared before the start; while it sends, the generator only compares."""
HEADERS = {"Content-Type": "application/json"}


@dataclass(frozen=True, slots=True)
class SampleRequest:
    """An Open Inference request body and the values of a correct answer."""

    body: bytes
    expected: tuple[float, ...]
    headers: dict[str, str] = field(default_factory=lambda: HEADERS)

    def accepts(self, body: bytes) -> bool:
        """Return whether an answer's only output has the expected values, within float32's precision."""
        try:
            (output,) = json.loads(body)["outputs"]
            data: list[float] = output["data"]
            return len(data) == len(self.expected) and all(
                math.isclose(got, want, rel_tol=1e-4, abs_tol=1e-4)
                for got, want in zip(data, self.expected, strict=True)
            )
        except (ValueError, KeyError, TypeError):
            return False


def sample_requests(seed: int, rows: int, features: int) -> tuple[SampleRequest, ...]:
    """Return `DIFFERENT` questions of `rows` x `features` random values each."""
    random = Random(seed)  # noqa: S311 - test data
    return tuple(
        sample_request([_row(random, features) for _ in range(rows)])
        for _ in range(DISTINCT_SAMPLES)
    )


def sample_request(matrix: Sequence[Sequence[float]]) -> SampleRequest:
    """Return the request to the emulated model for `matrix`."""
    data = [value for row in matrix for value in row]
    tensor = {
        "name": "INPUT",
        "datatype": "FP32",
        "shape": [len(matrix), len(matrix[0])],
        "data": data,
    }
    expected = tuple(value for row in matrix for value in answer(row))
    return SampleRequest(json.dumps({"inputs": [tensor]}).encode(), expected)


def _row(random: Random, features: int) -> list[float]:
    return [round(random.uniform(-1, 1), 4) for _ in range(features)]


def answer(row: Sequence[float]) -> list[float]:
    """Return the emulated accelerator's answer to one row (models/emulated.py): each value doubled, plus one."""
    return [2.0 * value + 1.0 for value in row]
