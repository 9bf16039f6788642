"""Estimated cost of decoding JSON, and decoding of number lists in pieces, with equal values."""

import json
import random
from typing import Any

import numpy as np
import pytest

from penstock_runtime.errors import BadInput
from penstock_runtime.protocols.common.json_structure import (
    PLAIN,
    SMALL_BYTES,
    TYPED,
    Numbers,
    structure_of,
)
from penstock_runtime.protocols.open_inference.bodies import split
from penstock_runtime.protocols.open_inference.tensors import from_json

PAD = "x" * SMALL_BYTES


def read(text: str) -> Any:
    """Return the value of a large body."""
    return split(text.encode(), None)[0]


def large(data: Any, **more: Any) -> str:
    """Return a large body with `data`."""
    return json.dumps({"inputs": [{"name": "X", "data": data}], "id": PAD, **more})


@pytest.mark.parametrize(
    "text",
    [
        '{"a": [1, 2, {"b": "c, d: [e]"}], "f": {}}',
        '{"a\\"[": "\\\\", "b": ["\\\\\\"{,:", 1]}',
        "[" + ",".join(["0.5"] * 100) + "]",
        '["' + "\\\\" * 300_000 + '", "' + '\\"' * 300_000 + '", {"a": []}]',
        '["' + "a" * 300_000 + ',[{", [1,2,3]]',
    ],
)
def test_punctuation_outside_strings_is_counted(text: str) -> None:
    structure = structure_of(text.encode(), PLAIN)
    names = containers = values = 0
    todo = [json.loads(text)]
    while todo:
        value = todo.pop()
        inside = list(value.values()) if isinstance(value, dict) else value
        if isinstance(value, dict | list):
            containers += 1
            names += len(value) if isinstance(value, dict) else 0
            values += max(0, len(inside) - 1)
            todo += inside
    assert (structure.names, structure.commas) == (names, values)
    assert abs(structure.containers - containers) <= len(text) // 2**18 + 1  # pieces cut pairs


@pytest.mark.parametrize("unit", ["[]", "{}", "1", '""', '{"a":1}', "[1,2]"])
@pytest.mark.parametrize("prices", [PLAIN, TYPED])
def test_a_body_that_decodes_slowly_is_rejected(unit: str, prices: Any) -> None:
    text = '{"x":[' + ",".join([unit] * (8 * 2**20 // len(unit))) + "]}"
    with pytest.raises(BadInput, match="times the limit for one body"):
        structure_of(text.encode(), prices).check(prices, [])


@pytest.mark.parametrize(
    "data",
    [
        list(range(100_000)),
        [[float(number)] * 40 for number in range(9)],
        [[[1, 2], [3, 4]]],
        [
            [10**number for number in range(12)],
            [0] * 12,
            [10**11] * 12,
        ],  # some rows are long, some short
        [],
    ],
)
def test_numbers_keep_their_values(data: Any) -> None:
    wire = read(large(data))
    wanted = np.array(data, np.float64)
    shape = tuple(wanted.shape)
    assert from_json(wire["inputs"][0]["data"], "FP64", shape, "f").tolist() == wanted.tolist()


def test_a_fault_within_numbers_names_its_position() -> None:
    wire = read(large([1] * 70_000 + [True]))
    with pytest.raises(BadInput, match="element 70000 of `data` is a boolean"):
        from_json(wire["inputs"][0]["data"], "FP32", (70_001,), "f")


@pytest.mark.parametrize(
    "numbers", ["1," * 60_000, "1 " * 60_000, "1," * 50_000 + ",1", "1" * 100_000, "- " * 99]
)
def test_a_broken_list_of_numbers_is_invalid_json(numbers: str) -> None:
    text = large("here").replace('"here"', f"[{numbers}]")

    def work() -> None:
        data = read(text)["inputs"][0]["data"]
        from_json(data, "FP32", (len(data),), "f")

    with pytest.raises(BadInput):
        work()


@pytest.mark.parametrize(
    ("data", "shape"),
    [
        ("[1,2,3" + " " * 66_000 + ", ]", (1, 4)),
        ("[1,2" + " " * 66_000 + "," + " " * 66_000 + ",3]", (1, 4)),
        ("[" + ",".join(["[" + " " * 70 + "]"] * 2000) + "]", (2000, 1)),
        ("[" + " " * 70 + "]", (1,)),
        ("[[" + " " * 70 + "],[" + "1," * 40 + "1]]", (2, 41)),
    ],
)
def test_a_list_with_blanks_for_numbers_fills_no_tensor(data: str, shape: tuple[int, ...]) -> None:
    wire = read(large("here").replace('"here"', data))
    with pytest.raises(BadInput, match=r"not valid JSON|holds 0 elements|ragged|nested as"):
        from_json(wire["inputs"][0]["data"], "FP32", shape, "f")


def test_numbers_outside_tensors_are_decoded_with_the_body_or_rejected() -> None:
    assert read(large([1], parameters={"a": [0] * 100}))["parameters"] == {"a": [0] * 100}
    with pytest.raises(BadInput, match="times the limit for one body"):
        read(large([1], parameters={"a": [0] * 10**6}))
    with pytest.raises(BadInput, match="not valid JSON"):
        read(large([1]).replace("[1]", "[1]", 1)[:-1] + ', "a": [' + "1 " * 99 + "]}")


def test_strings_are_never_read_as_numbers() -> None:
    random.seed(1)
    alphabet = '[]{}",:\\ 1'
    for _ in range(200):
        text = "".join(random.choices(alphabet, k=200))  # noqa: S311 - no secret
        wire = read(large([text, text]))
        assert wire["inputs"][0]["data"] == [text, text]


def test_the_length_of_a_number_list() -> None:
    data = read(large([5] * 1000))["inputs"][0]["data"]
    assert isinstance(data, Numbers)
    assert len(data) == 1000
