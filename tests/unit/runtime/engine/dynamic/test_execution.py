import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock_runtime.engine.dynamic.batch_former import Batch
from penstock_runtime.engine.dynamic.execution import BatchResult, execute, split_outputs
from penstock_runtime.engine.model import DeviceLost
from penstock_runtime.request import Completed, Failed, Request, Tensor
from tests.unit.runtime.engine.dynamic.builders import POISON, Doubling, a_request, answer


def run(model: Doubling, *requests: Request, cap: int = 4096) -> BatchResult:
    batch = Batch(requests, sum(request.rows for request in requests), cap)
    return execute(model, batch, model.clock, lambda: None)


def test_every_request_gets_its_own_rows_back() -> None:
    ran = run(Doubling(), a_request("a", rows=2, value=1.0), a_request("b", rows=3, value=5.0))
    ends = dict(ran.ends)
    assert (answer(ends["a"]), answer(ends["b"])) == (2.0, 10.0)
    assert [end.outputs["y"].shape[0] for end in ends.values() if isinstance(end, Completed)] == [
        2,
        3,
    ]


@given(
    rows=st.lists(st.sampled_from([1, 1, 1, 2, 3]), min_size=1, max_size=9),
    outputs=st.integers(1, 3),
)
def test_shares_are_the_whole_batch_in_order(rows: list[int], outputs: int) -> None:
    requests = [a_request(str(at), rows=count) for at, count in enumerate(rows)]
    batch_outputs = {
        f"y{n}": np.arange(sum(rows) * (n + 1) * 2).reshape(sum(rows), n + 1, 2)
        for n in range(outputs)
    }
    split = split_outputs(requests, dict(batch_outputs))
    assert [len(outputs_of_request["y0"]) for outputs_of_request in split] == rows
    for name, whole in batch_outputs.items():
        parts: list[Tensor] = [outputs_of_request[name] for outputs_of_request in split]
        assert np.array_equal(np.concatenate(parts), whole)
        assert all(np.shares_memory(part, whole) for part in parts)


def test_time_in_queue_ends_when_the_batch_begins() -> None:
    model = Doubling(fixed_seconds=5.0)
    model.clock.now = 12.0
    ((_, end),) = run(model, a_request("a", arrived=10.0)).ends
    assert isinstance(end, Completed)
    assert end.queue_seconds == 2.0


def test_a_bad_row_fails_alone_with_the_models_words_and_its_mates_are_served() -> None:
    requests = [a_request(str(n), value=POISON if n == 5 else n + 100) for n in range(16)]
    model = Doubling()
    ends = dict(run(model, *requests).ends)
    assert ends.pop("5") == Failed("ValueError: a poisoned row")
    assert {name: answer(end) for name, end in ends.items()} == {
        str(n): 2.0 * (n + 100) for n in range(16) if n != 5
    }
    assert len(model.batches) == 1 + 2 * 4  # halved four times, both halves run


def test_when_every_request_is_bad_every_one_is_reported() -> None:
    ran = run(Doubling(), *(a_request(str(n), value=POISON) for n in range(5)))
    assert [end for _, end in ran.ends] == [Failed("ValueError: a poisoned row")] * 5


def test_a_batch_that_does_not_fit_is_halved_until_it_does() -> None:
    model = Doubling(fits=3)
    ran = run(model, *(a_request(str(n), value=n) for n in range(10)))
    assert model.batches == [10, 5, 3, 3, 3, 1]
    assert (ran.out_of_memory_splits, ran.bound(10)) == (2, 3)
    assert [answer(end) for _, end in ran.ends] == [2.0 * n for n in range(10)]


def test_one_large_request_that_does_not_fit_is_computed_in_slices() -> None:
    ran = run(Doubling(fits=4), a_request("a", rows=10, value=3.0))
    ((_, end),) = ran.ends
    assert isinstance(end, Completed)
    assert end.outputs["y"].shape == (10, 2)
    assert answer(end) == 6.0


def test_a_row_that_does_not_fit_alone_fails_and_nothing_else_does() -> None:
    model = Doubling(fits=0)
    ran = run(model, a_request("a"), a_request("b", rows=2))
    assert [end for _, end in ran.ends] == [Failed("OutOfMemory: 1 rows do not fit")] * 2
    assert ran.bound(16) == 16


def test_a_request_above_the_cap_is_computed_in_slices_of_the_cap() -> None:
    model = Doubling()
    ran = run(model, a_request("a", rows=20, value=1.0), cap=8)
    assert model.batches == [8, 8, 4]
    assert answer(ran.ends[0][1]) == 2.0


def test_the_models_memory_error_counts_as_out_of_memory() -> None:
    class Greedy(Doubling):
        def run(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
            if inputs["x"].shape[0] > 1:
                raise MemoryError
            return super().run(inputs)

    ran = run(Greedy(), a_request("a"), a_request("b"))
    assert [answer(end) for _, end in ran.ends] == [2.0, 2.0]
    assert ran.out_of_memory_splits == 1


def test_what_a_batch_that_did_not_fit_had_allocated_is_free_before_the_next_try() -> None:
    scratch = list[weakref.ref[Tensor]]()

    class Allocating(Doubling):
        def run(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
            assert all(reference() is None for reference in scratch), (
                "the failed batch is still held"
            )
            mine = np.zeros(8)
            scratch.append(weakref.ref(mine))
            return super().run(inputs)

    ran = run(Allocating(fits=1), *(a_request(str(n)) for n in range(4)))
    assert [answer(end) for _, end in ran.ends] == [2.0] * 4


def test_a_lost_device_is_no_fault_of_the_requests() -> None:
    def lose(_: dict[str, Tensor]) -> dict[str, Tensor]:
        raise DeviceLost("device-side assert triggered")

    with pytest.raises(DeviceLost):
        run(Doubling(spoil=lose), a_request("a"), a_request("b"))


@pytest.mark.parametrize(
    ("outputs", "words"),
    [
        ({}, "output 'y' is nothing, expected an array"),
        ({"y": [1.0]}, "output 'y' is list, expected an array"),
        ({"y": np.zeros((9, 2), np.float32)}, "output 'y' has shape (9, 2), expected (1, 2)"),
        ({"y": np.zeros((1, 3), np.float32)}, "output 'y' has shape (1, 3), expected (1, 2)"),
        ({"y": np.zeros((), np.float32)}, "output 'y' has shape (), expected (1, 2)"),
        ({"y": np.zeros((1, 2), np.float64)}, "output 'y' has dtype float64, expected FP32"),
        (None, "the model returned NoneType, expected a dict of arrays"),
    ],
)
def test_a_wrong_answer_of_the_model_is_a_failure_with_words(outputs: object, words: str) -> None:
    model = Doubling(spoil=lambda _: outputs)  # type: ignore[arg-type, return-value]
    ran = run(model, a_request("a"))
    assert ran.ends == [("a", Failed(f"BadOutput: {words}"))]


def test_failed_runs_take_time_but_are_no_measurement() -> None:
    model = Doubling(fixed_seconds=1.0)
    ran = run(model, a_request("bad", value=POISON), a_request("good"))
    assert ran.seconds == 3.0
    assert ran.runs == [(1, 1.0)]


@given(
    st.lists(st.tuples(st.integers(1, 9), st.booleans()), min_size=1, max_size=20),
    st.integers(0, 30),
    st.integers(1, 40),
)
def test_every_request_ends_once_and_only_the_bad_fail(
    drawn: list[tuple[int, bool]], fits: int, cap: int
) -> None:
    requests = [
        a_request(str(n), rows=rows, value=POISON if bad else n + 100)
        for n, (rows, bad) in enumerate(drawn)
    ]
    model = Doubling(fits=fits)
    ran = run(model, *requests, cap=cap)
    assert [name for name, _ in ran.ends] == [request.id for request in requests]
    for (name, end), (_, bad) in zip(ran.ends, drawn, strict=True):
        if bad or fits == 0:
            assert isinstance(end, Failed)
        else:
            assert answer(end) == 2.0 * (int(name) + 100)
    assert all(rows <= cap for rows in model.batches)
