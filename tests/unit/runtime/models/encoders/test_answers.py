"""What is served is what transformers computes, row for row, however rows are batched."""

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

from penstock_api.types.model import ModelSpec, Task
from penstock_runtime.engine.continuous.steps.options import DType
from penstock_runtime.engine.dynamic import warm_up as warming
from penstock_runtime.engine.model import ModelLoadFailed
from penstock_runtime.models.device import memory
from penstock_runtime.models.encoders import load as loading
from penstock_runtime.models.encoders import model as encoders
from penstock_runtime.models.encoders.load import load_encoder
from penstock_runtime.models.encoders.packed import PackedBody
from penstock_runtime.models.load import ModelOptions, load
from penstock_runtime.request import Tensor
from tests.unit.runtime.models.encoders.conftest import LABELS, Loaded, texts

FAMILIES = ("bert", "roberta", "distilbert", "electra")
LENGTHS = (5, 64, 1, 17, 5, 33, 2, 64)


def assert_near(got: Tensor, wanted: Tensor, tolerance: float = 1e-5) -> None:
    difference = np.abs(np.subtract(got, wanted, dtype=np.float64))
    assert difference.max() <= tolerance * max(1.0, np.abs(wanted).max())


def reference(folder: Path, inputs: dict[str, Tensor], *, labels: bool) -> Tensor:
    """Return what the untouched model says of each row alone, without any padding."""
    kind = transformers.AutoModelForSequenceClassification if labels else transformers.AutoModel
    model = kind.from_pretrained(folder, dtype=torch.float32).eval()
    rows = []
    for ids, mask in zip(inputs["input_ids"], inputs["attention_mask"], strict=True):
        with torch.inference_mode():
            answer = model(input_ids=torch.from_numpy(ids[mask == 1])[None])
        vector = answer.logits[0] if labels else answer.last_hidden_state[0].mean(0)
        rows.append(vector if labels else torch.nn.functional.normalize(vector, dim=0))
    array: Tensor = torch.stack(rows).numpy()
    return array


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("labels", [False, True], ids=["embedding", "classification"])
def test_rows_of_any_length_get_what_the_untouched_model_says_of_each_alone(
    loaded: Loaded, directories: Callable[..., Path], family: str, labels: bool
) -> None:
    inputs = texts(*LENGTHS)
    (got,) = loaded(family, labels=labels).run(inputs).values()
    wanted = reference(directories(family, labels=labels), inputs, labels=labels)
    assert_near(got, wanted, 1e-4)


@pytest.mark.parametrize("dtype", [DType.BFLOAT16, DType.FLOAT16])
@pytest.mark.parametrize("labels", [False, True], ids=["embedding", "classification"])
def test_a_16_bit_encoder_computes_in_its_type_and_answers_in_float32(
    directories: Callable[..., Path], dtype: DType, labels: bool
) -> None:
    inputs, task = texts(5, 17, 64), Task.CLASSIFICATION if labels else Task.EMBEDDING
    folder = directories("bert", labels=labels)
    (got,) = load_encoder(folder, task, dtype).run(inputs).values()
    wanted = reference(folder, inputs, labels=labels)
    assert got.dtype == np.float32
    assert_near(got, wanted, 0.05)
    assert np.abs(np.subtract(got, wanted)).max() > 1e-5, "rounded to 16 bits"


def test_a_type_that_the_model_cannot_compute_in_is_named_with_the_remedy(
    directories: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("not implemented for 'Half'")

    monkeypatch.setattr(encoders.PaddedEncoder, "run", refuse)
    with pytest.raises(
        ModelLoadFailed, match=r"float16 on a CPU .*set spec\.model\.dtype to Float32"
    ):
        load_encoder(directories("bert"), Task.EMBEDDING, DType.FLOAT16)


@pytest.mark.parametrize(
    ("family", "platform"),
    [
        ("bert", "transformers_packed"),
        ("roberta", "transformers_packed"),
        ("distilbert", "transformers_packed"),
        ("electra", "transformers_padded"),
    ],
)
def test_the_platform_says_how_rows_are_computed(
    loaded: Loaded, family: str, platform: str
) -> None:
    info = loaded(family).info
    assert info.platform == platform
    assert (info.length_buckets == ()) == (platform == "transformers_packed")


def test_an_embedding_model_says_what_it_takes_and_gives(loaded: Loaded) -> None:
    info = loaded("bert").info
    assert [(spec.name, spec.datatype, spec.shape, spec.ragged) for spec in info.inputs] == [
        ("input_ids", "INT64", (-1, -1), True),
        ("attention_mask", "INT64", (-1, -1), True),
    ]
    assert [(spec.name, spec.shape) for spec in info.outputs] == [("embedding", (-1, 32))]
    assert info.inputs[0].outside((1, 65)) == "dimension 1 must be from 1 to 64, got 65"


def test_a_classifier_names_its_labels(loaded: Loaded) -> None:
    info = loaded("bert", labels=True).info
    assert info.labels == LABELS
    assert info.outputs[0].shape == (-1, len(LABELS))


def test_a_batch_of_many_passes_is_put_together_in_order(
    loaded: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = texts(*LENGTHS)
    (whole,) = loaded("bert").run(inputs).values()
    monkeypatch.setattr(loading, "CHUNK_TOKENS", 40)
    (cut,) = loaded("bert").run(inputs).values()
    assert_near(cut, whole)


def test_padding_before_the_tokens_counts_for_nothing(loaded: Loaded) -> None:
    right = texts(9)
    left = {name: np.roll(np.pad(array, ((0, 0), (0, 3))), 3, 1) for name, array in right.items()}
    model = loaded("bert")
    (before,), (behind,) = model.run(left).values(), model.run(right).values()
    assert_near(before, behind)


@pytest.mark.parametrize("family", ["bert", "electra"])
def test_a_row_that_no_model_takes_is_rejected_before_it_is_computed(
    loaded: Loaded, family: str
) -> None:
    model = loaded(family)
    unknown = texts(4)
    unknown["input_ids"][0, 2] = 10**6
    with pytest.raises(encoders.BadRow, match="token id 1000000 is not in the vocabulary of 1005"):
        model.run(unknown)
    with pytest.raises(encoders.BadRow, match="has 65 to 65 tokens: send 1 to 64"):
        model.run(texts(65))
    empty = texts(4)
    empty["attention_mask"][:] = 0
    with pytest.raises(encoders.BadRow, match="has 0 to 0 tokens"):
        model.run(empty)


def test_a_packed_way_that_computes_something_else_is_not_taken(
    loaded: Loaded, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Wrong(PackedBody):
        def __call__(self, ids: torch.Tensor, equals: list[tuple[int, int]]) -> torch.Tensor:
            return super().__call__(ids.flip(0), equals)

    monkeypatch.setattr(loading, "PackedBody", Wrong)
    assert loaded("bert").info.platform == "transformers_padded"
    assert "the packed variant is not used: it differs from the original model" in caplog.text


@pytest.mark.parametrize("pad", [0, 5, 1004])
def test_samples_have_ids_of_the_vocabulary_other_than_the_padding(pad: int) -> None:
    limits = encoders.TextLimits(max_tokens=64, vocabulary=1005, pad_id=pad)
    for sample in loading.samples(limits):
        ids, mask = sample["input_ids"], sample["attention_mask"]
        assert set(np.unique(ids[mask == 0])) <= {pad}
        drawn = ids[mask == 1]
        assert pad not in drawn
        assert 0 <= drawn.min() <= drawn.max() < limits.vocabulary
    only = loading.samples(encoders.TextLimits(9, 2, 1))[0]["input_ids"]
    assert not only.any()


def test_memory_is_measured_with_the_longest_rows(loaded: Loaded) -> None:
    assert 1 <= loaded("bert").memory_bound_rows() <= 4096


@pytest.mark.parametrize(("family", "compiled"), [("bert", 0), ("electra", 1)])
def test_an_encoder_that_torch_cannot_compile_is_served_as_it_is(
    directories: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    family: str,
    compiled: int,
) -> None:
    calls = list[object]()

    def compile_plainly(call: object, **more: object) -> object:
        assert more == {"dynamic": True}
        calls.append(call)
        return call

    monkeypatch.setattr(torch, "compile", compile_plainly)
    monkeypatch.setattr(memory, "MEASURING_SECONDS", 0.02)
    monkeypatch.setattr(warming, "LENGTHS_SECONDS", 0.02)
    monkeypatch.setattr(warming, "WARM_UP_SECONDS", 0.02)
    folder = directories(family)
    claim = {"claimName": "models", "path": folder.name}
    source = {"type": "PersistentVolumeClaim", "persistentVolumeClaim": claim}
    spec = ModelSpec.model_validate({"task": "Embedding", "source": source})
    model = load(spec, "served", folder.parent, ModelOptions(threads=1, compile=True))
    assert warming.warm_up(model, time.monotonic).bound_rows >= 1
    assert len(calls) == compiled
    assert ("not compiled" in caplog.text) == (not compiled)
    assert model.run(texts(5, 3))["embedding"].shape == (2, 32)
