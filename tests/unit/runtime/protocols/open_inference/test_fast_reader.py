"""Equal results of the quick and the careful reader for every body."""

import json
import weakref
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock_runtime.engine.model import ModelInfo, TensorSpec
from penstock_runtime.errors import BadInput
from penstock_runtime.protocols.open_inference import bodies, infer_request
from penstock_runtime.protocols.open_inference.fast_reader import QuickReader
from penstock_runtime.protocols.open_inference.infer_request import InferCall

FLOATS = TensorSpec("X", "FP32", (-1, 2))
MODELS = [
    ModelInfo("one", "p", "cpu", inputs, (TensorSpec("Y", "FP32", (-1, 2)),), 8)
    for inputs in (
        (FLOATS,),
        (FLOATS, TensorSpec("K", "INT32", (-1, -1), ((1, 8), (1, 3)))),
        (TensorSpec("D", "FP64", (-1,)), TensorSpec("L", "INT64", (-1, 1))),
        (FLOATS, TensorSpec("B", "BOOL", (-1, 1))),
        (
            TensorSpec("I", "INT64", (-1, -1), ragged=True, values=range(9)),
            TensorSpec("M", "INT64", (-1, -1), ragged=True, marks=True),
        ),
        (TensorSpec("I", "INT64", (-1, -1), ragged=True, values=range(9)),),
    )
]
NUMBERS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(-10, 10, width=32),
    st.integers(-(2**66), 2**66),
    st.integers(-3, 3),
    st.sampled_from([True, None, "1", 1e39, -0.0, 3.4028235677973366e38, 3.4028234e38, [1]]),
)
SHAPES = st.lists(st.integers(-1, 5) | st.sampled_from([1.0, True, "2"]), max_size=3)


@st.composite
def whole_bodies(draw: Any) -> tuple[ModelInfo, bytes]:
    """A valid body, or a nearly valid one."""
    model = draw(st.sampled_from(MODELS))
    rows = draw(st.integers(1, 3))
    inputs = [draw(tensors(spec, rows)) for spec in draw(st.permutations(model.inputs))]
    wire = {"inputs": inputs}
    if draw(st.integers(0, 9)) == 0:
        wire["inputs"] = draw(st.sampled_from([[], inputs * 2, inputs[:1], None, {}]))
    wire.update(draw(st.sampled_from([{}, {}, {}, *MORE])))
    return model, json.dumps(wire).encode()


MORE: list[dict[str, Any]] = [
    {"id": "a"}, {"id": "\u00e9"}, {"id": 5}, {"id": None}, {"id": "\ud800"},
    {"parameters": {"priority": 3, "timeout": 10}}, {"parameters": {"priority": 1.0}}, {"parameters": {}},
    {"parameters": {"timeout": 2**64}}, {"parameters": None},
    {"parameters": {"binary_data_output": True}}, {"outputs": [{"name": "Y"}]}, {"outputs": [{"name": "Q"}]},
    {"outputs": []}, {"outputs": None}, {"unknown": 1},
]  # fmt: skip


@st.composite
def tensors(draw: Any, spec: TensorSpec, rows: int) -> dict[str, Any]:
    shape = [rows, *(draw(st.integers(1, 4)) if n == -1 else n for n in spec.shape[1:])]
    size = int(np.prod(shape))
    number: st.SearchStrategy[Any] = (
        st.booleans() if spec.datatype == "BOOL" else st.integers(-(2**31), 2**31 - 1)
    )
    if spec.ragged:
        number = st.integers(0, 1) | st.integers(-1, 9)
    if spec.datatype.startswith("FP"):
        number = st.floats(-1e30, 1e30) | st.integers(-(2**70), 2**70)
    data = draw(st.lists(number, min_size=size, max_size=size))
    tensor = {"name": spec.name, "datatype": spec.datatype, "shape": shape, "data": data}
    match draw(st.integers(0, 19)):
        case 0:
            tensor["shape"] = draw(SHAPES)
        case 1:
            data[draw(st.integers(0, size - 1))] = draw(NUMBERS)
        case 2:
            data.pop()
        case 3:
            tensor["data"] = [data]
        case 4:
            del tensor[draw(st.sampled_from(sorted(tensor)))]
        case 5:
            tensor[draw(st.sampled_from(sorted(tensor)))] = draw(NUMBERS)
        case 6:
            tensor["parameters"] = {}
    return tensor


def outcome(read: Any) -> Any:
    """Return a reader's result in comparable values."""
    try:
        call = read()
    except BadInput as fault:
        return fault.message, fault.field
    arrays = [
        (name, tensor.dtype, tensor.shape, tensor.tobytes()) for name, tensor in call.inputs.items()
    ]
    return arrays, call.rows, call.group, call.priority, call.timeout_seconds, call.options


@given(whole_bodies())
@settings(max_examples=400)
def test_both_readers_give_equal_results(drawn: tuple[ModelInfo, bytes]) -> None:
    model, body = drawn
    assert as_read(QuickReader(model, 4), body) == as_read_carefully(model, body)


def as_read(reader: QuickReader, body: bytes) -> Any:
    return outcome(lambda: reader.read(body, None))


def as_read_carefully(model: ModelInfo, body: bytes) -> Any:
    return outcome(lambda: infer_request.parse(*bodies.split(bytearray(body), None)[:2], model, 4))


@pytest.mark.parametrize("datatype", ["FP32", "FP64", "INT32", "INT64"])
@pytest.mark.parametrize(
    "number",
    [
        "-0", "-0.0", "0", "1e308", "0.1e-400", "123456789012345678901", "1E5", "1e+2", "1.", ".5", "01", "-", "+1",
        "3.4028235677973366e38", "3.4028234e38", "16777217", "9007199254740993", "0.1234567890123456789",
        "2147483648", "-2147483648", "9223372036854775807", "1.0", "NaN", "true", "null", '"1"', "[1]", "1 ", "\n1", "",
    ],
)  # fmt: skip
def test_both_readers_read_numbers_bit_for_bit_equal(number: str, datatype: str) -> None:
    model = ModelInfo(
        "m", "p", "cpu", (TensorSpec("X", datatype, (-1, 2)),), (TensorSpec("Y", "FP32", (-1,)),), 8
    )
    reader = QuickReader(model, 4)
    for text in (body_of(datatype, "1"), body_of(datatype, number)):
        assert as_read(reader, text) == as_read_carefully(model, text)


def body_of(datatype: str, number: str, more: str = "") -> bytes:
    tensor = f'{{"name":"X","datatype":"{datatype}","shape":[1,2],"data": [{number},1]}}'
    return f'{{"inputs":[{tensor}]{more}}}'.encode()


@pytest.mark.parametrize(
    "more", [',"id":"data"', ',"parameters":{"data":[5,6]}', ',"parameters":{"d\\u0061ta":[5,6]}']
)
def test_a_list_outside_the_tensor_is_never_read_as_its_data(more: str) -> None:
    reader = QuickReader(MODELS[0], 4)
    for number in ("5", "7"):
        text = body_of("FP32", number, more)
        behind = text.replace(b'"inputs"', b'"parameters":{"data":[5,6]},"inputs"')
        for body in (text, behind):
            assert as_read(reader, body) == as_read_carefully(MODELS[0], body)


def test_plain_bodies_are_read_without_the_careful_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(QuickReader, "_read_carefully", None)
    tensors = [
        {"name": "K", "datatype": "INT32", "shape": [2, 1], "data": [1, 2]},
        {"name": "X", "datatype": "FP32", "shape": [2, 2], "data": [1, 2.5, 3, 4]},
    ]
    body = json.dumps({"inputs": tensors, "parameters": {"priority": 1}}).encode()
    call = QuickReader(MODELS[1], 4).read(body, None)
    assert list(call.inputs) == ["X", "K"]
    assert call.inputs["X"].tolist() == [[1, 2.5], [3, 4]]
    assert (call.rows, call.priority) == (2, 1)


def test_a_cached_binary_head_is_read_with_the_data_of_its_own_body() -> None:
    reader = QuickReader(MODELS[1], 4)
    for value in (1.0, 2.0, 3.0):
        x, k = np.full((2, 2), value, "<f4"), np.full((2, 3), int(value), "<i4")
        head = binary_head(x.nbytes, k.nbytes)
        call = reader.read(head + x.tobytes() + k.tobytes(), str(len(head)))
        assert np.array_equal(call.inputs["X"], x)
        assert np.array_equal(call.inputs["K"], k)
    with pytest.raises(BadInput, match="follow the JSON"):
        reader.read(head + bytes(41), str(len(head)))


@pytest.mark.parametrize("name", [{}, {"id": "mine"}])
def test_a_cached_binary_head_keeps_no_data(name: dict[str, str]) -> None:
    reader = QuickReader(MODELS[0], 4)
    head = json.dumps(json.loads(lone_head(1)) | name).encode()
    for value in range(3):
        assert_dies_with_its_call(reader.read(head + bytes([value] * 8), str(len(head))))


def test_a_binary_head_with_an_id_is_not_cached() -> None:
    reader = QuickReader(MODELS[0], 4)
    for number in range(3):
        head = json.dumps(json.loads(lone_head(1)) | {"id": str(number)}).encode()
        assert reader.read(head + bytes(8), str(len(head))).options.id == str(number)
    assert not reader._heads


def test_a_binary_head_with_nan_or_infinity_is_read() -> None:
    head = json.dumps(json.loads(lone_head(1)) | {"a": float("nan")}).encode()
    for value in range(3):
        call = QuickReader(MODELS[0], 4).read(head + bytes([value] * 8), str(len(head)))
        assert call.inputs["X"].tobytes() == bytes([value] * 8)


def assert_dies_with_its_call(call: InferCall) -> None:
    arrays = [weakref.ref(array) for array in call.inputs.values()]
    del call
    assert [array() for array in arrays] == [None] * len(arrays)


def test_a_single_binary_input_is_read_independently_of_earlier_bodies() -> None:
    reader = QuickReader(MODELS[0], 4)
    heads = {rows: lone_head(rows) for rows in (1, 2)}
    assert len(heads[1]) == len(heads[2])
    for rows, size in (
        (1, 8),
        (1, 8),
        (1, 8),
        (2, 16),
        (1, 8),
        (1, 16),
        (1, 9),
        (2, 16),
        (2, 16),
        (2, 15),
    ):
        head, data = heads[rows], bytes(range(60, 60 + size))
        body, length = head + data, str(len(head))
        careful = outcome(
            lambda: infer_request.parse(*bodies.split(bytearray(body), length)[:2], MODELS[0], 4)  # noqa: B023
        )
        assert outcome(lambda: reader.read(body, length)) == careful  # noqa: B023


def lone_head(rows: int) -> bytes:
    tensor = {"name": "X", "datatype": "FP32", "shape": [rows, 2]}
    sized = tensor | {"parameters": {"binary_data_size": 8 * rows}}
    return json.dumps({"inputs": [sized], "parameters": {"priority": 2}}).encode().ljust(140)


def binary_head(*sizes: int) -> bytes:
    shapes = {"X": ("FP32", [2, 2]), "K": ("INT32", [2, 3])}
    inputs = [
        {"name": name, "datatype": kind, "shape": shape, "parameters": {"binary_data_size": size}}
        for (name, (kind, shape)), size in zip(shapes.items(), sizes, strict=True)
    ]
    return json.dumps({"inputs": inputs}).encode()
