import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock_runtime.engine.queue.heap import LazyHeap


def test_items_leave_by_key() -> None:
    heap: LazyHeap[int, str] = LazyHeap()
    for item, key in (("b", 2), ("c", 3), ("a", 1)):
        heap.put(item, key)
    assert [heap.pop() for _ in range(3)] == ["a", "b", "c"]


def test_an_item_can_be_given_another_key() -> None:
    heap: LazyHeap[int, str] = LazyHeap()
    heap.put("a", 1)
    heap.put("b", 2)
    heap.put("a", 3)
    assert (heap.head(), len(heap)) == ((2, "b"), 2)


def test_a_removed_item_never_surfaces() -> None:
    heap: LazyHeap[int, str] = LazyHeap()
    heap.put("a", 1)
    heap.put("b", 2)
    heap.discard("a")
    heap.discard("never there")
    assert heap.pop() == "b"
    assert heap.head() is None


def test_popping_an_empty_heap_is_an_error() -> None:
    with pytest.raises(IndexError):
        LazyHeap[int, str]().pop()


def test_memory_stays_within_twice_the_live_items_when_all_are_cancelled() -> None:
    heap: LazyHeap[int, int] = LazyHeap()
    for item in range(10_000):
        heap.put(item, item)
    for item in range(1, 10_000):  # the head stays, so that nothing is ever popped
        heap.discard(item)
        assert heap.size_in_memory <= 2 * len(heap) + 64
    assert len(heap) == 1


def test_memory_stays_bounded_when_one_item_is_re_keyed_forever() -> None:
    heap: LazyHeap[int, str] = LazyHeap()
    for key in range(10_000):
        heap.put("a", -key)
        assert heap.size_in_memory <= 2 * len(heap) + 64


@given(
    st.lists(
        st.tuples(st.sampled_from(["put", "discard", "pop"]), st.integers(0, 9), st.integers(0, 99))
    )
)
def test_behaves_as_a_sorted_dict(steps: list[tuple[str, int, int]]) -> None:
    heap: LazyHeap[int, int] = LazyHeap()
    model: dict[int, int] = {}
    for step, item, key in steps:
        if step == "put":
            heap.put(item, key)
            model[item] = key
        elif step == "discard":
            heap.discard(item)
            model.pop(item, None)
        elif model:
            smallest = min(model, key=lambda each: (model[each], each))
            assert heap.pop() == smallest
            del model[smallest]
        smallest_left = min(((each, item) for item, each in model.items()), default=None)
        assert heap.head() == smallest_left
        assert len(heap) == len(model)
