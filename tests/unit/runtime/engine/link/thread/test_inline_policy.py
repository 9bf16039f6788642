"""`InlinePolicy`: short batches run in the event loop; a model that becomes slow returns to the thread at once."""

import threading
import time
from itertools import pairwise

import numpy as np

from penstock_runtime.engine.link.batch import batch_thread_link
from penstock_runtime.engine.link.thread.event_loop_host import EventLoopHost
from penstock_runtime.engine.link.thread.inline_policy import InlinePolicy
from penstock_runtime.engine.link.thread.link import ThreadLink
from penstock_runtime.engine.messages import EngineDied, SetLimits, Submit
from penstock_runtime.engine.model import ModelInfo, TensorSpec
from penstock_runtime.request import Tensor
from tests.unit.runtime.engine.dynamic.builders import FEATURES, a_request, answer, limits
from tests.unit.runtime.engine.link.conftest import Client


class Watched:
    """y = 2x, in no time or in a while; notes the threads that it runs in."""

    def __init__(self, backend: str = "cpu", free: bool = False) -> None:
        shape = (-1, -1 if free else FEATURES)
        specs = (TensorSpec("x", "FP32", shape),)
        self.info = ModelInfo("w", "test", backend, specs, (TensorSpec("y", "FP32", shape),), 64)
        self.threads: list[threading.Thread] = []
        self.seconds = 0.0

    def run(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        self.threads.append(threading.current_thread())
        time.sleep(self.seconds)
        if (inputs["x"] == 666).any():
            raise SystemExit("gone")
        return {"y": np.multiply(inputs["x"], 2, dtype=np.float32)}

    def memory_bound_rows(self) -> int:
        return 64


async def served(model: Watched, number: int = 20, max_inline_seconds: float = 10.0) -> Client:
    """Serve requests one after another; return the client, its link open."""
    client = Client(
        batch_thread_link(lambda: model, limits(), max_inline_seconds=max_inline_seconds)
    )
    await client.start()
    model.threads.clear()
    for n in range(number):
        client.submit(a_request(str(n), value=float(n + 1)))
        assert [answer(end) for end in await client.ends_of(str(n))] == [2.0 * (n + 1)]
    return client


async def test_brief_batches_run_in_the_loop() -> None:
    model = Watched()
    client = await served(model)
    assert set(model.threads) == {threading.current_thread()}
    client.submit(*(a_request(f"more {n}") for n in range(20)))
    await client.ends_of(*(f"more {n}" for n in range(20)))
    assert [report.batch.rows for report in client.settled if report.batch][-3:] == [8, 8, 4]
    await client.link.close()


async def test_what_is_sent_in_one_round_shares_a_batch_and_one_message() -> None:
    client = await served(Watched(), number=0)
    before = len(client.settled)
    client.send(SetLimits(limits(cap=5, generation=2)))
    for n in range(5):
        client.send(Submit((a_request(str(n)),)))
    await client.ends_of(*map(str, range(5)))
    assert len(client.settled) == before + 1
    assert client.settled[-1].report.generation == 2
    await client.link.close()


async def test_other_devices_free_dimensions_and_long_batches_are_the_threads() -> None:
    for model, brief in ((Watched("cuda:x"), 10.0), (Watched(free=True), 10.0), (Watched(), 1e-9)):
        client = await served(model, max_inline_seconds=brief)
        assert threading.current_thread() not in model.threads
        await client.link.close()


async def test_a_model_that_kills_the_engine_in_the_loop_is_reported_like_any_other() -> None:
    client = await served(Watched())
    client.submit(a_request("a", value=666.0))
    await client.until(lambda: bool(client.deaths))
    assert client.deaths == [EngineDied("SystemExit: gone")]
    await client.link.close()


def test_a_model_that_turns_slow_holds_the_loop_once() -> None:
    policy = InlinePolicy(0.2)
    policy.record([(8, 0.001)] * 8)
    assert policy.should_inline(8, predicted_seconds=0.001, now=0.0)
    policy.record([(8, 0.3)])
    for now in (0.3, 100.0):
        assert not policy.should_inline(8, predicted_seconds=0.001, now=now)
        policy.record_offloaded([(8, 0.3)], cpu_seconds=0.001)


async def test_a_model_that_turned_slow_runs_in_the_thread() -> None:
    model = Watched()
    client = await served(model, max_inline_seconds=0.2)
    model.seconds = 0.3
    for n in range(6):  # on a machine that starves, a few trials in the loop go first
        client.submit(a_request(f"slow {n}"))
        await client.ends_of(f"slow {n}")
    assert model.threads[-1] is not threading.current_thread()
    await client.link.close()


def test_one_long_run_among_short_ones_is_an_interruption() -> None:
    brevity = InlinePolicy(0.001)
    assert not brevity.should_inline(8, predicted_seconds=0.002, now=0.0)
    brevity.record([(8, 0.0005), (8, 0.03)])
    assert brevity.should_inline(9, predicted_seconds=1.0, now=0.0)
    assert not brevity.should_inline(64, predicted_seconds=1.0, now=0.0)
    brevity.record([(8, 0.002)] * 8)
    assert not brevity.should_inline(8, predicted_seconds=0.0, now=0.0)


def test_a_run_that_only_waited_for_the_interpreter_is_tried_in_the_loop_again() -> None:
    brevity = InlinePolicy(0.001)
    brevity.record_offloaded([(8, 0.01)] * 8, cpu_seconds=0.0002)
    assert brevity.should_inline(8, predicted_seconds=1.0, now=5.0)
    brevity.record([(8, 0.0002)])
    assert brevity.should_inline(8, predicted_seconds=1.0, now=5.0)


def test_a_model_that_sleeps_is_tried_ever_more_seldom() -> None:
    brevity, trials = InlinePolicy(0.001), list[float]()
    for tick in range(2000):
        now = tick / 10
        if brevity.should_inline(8, predicted_seconds=1.0, now=now):
            trials.append(now)
            brevity.record([(8, 0.01)])
        else:
            brevity.record_offloaded([(8, 0.01)], cpu_seconds=0.0002)
    gaps = [later - before for before, later in pairwise(trials)]
    assert gaps == sorted(gaps)
    assert len(trials) < 15


def test_a_model_that_computes_long_or_waits_long_is_not_tried() -> None:
    brevity = InlinePolicy(0.001)
    for seconds, cpu_seconds in ((0.01, 0.01), (0.06, 0.0002)):
        brevity.record_offloaded([(8, seconds)], cpu_seconds)
        assert not brevity.should_inline(8, predicted_seconds=0.0, now=1e9)


async def test_batches_of_a_thread_that_starves_next_to_a_busy_loop_run_inline() -> None:
    model = Watched()
    client = await served(model, number=0, max_inline_seconds=0.005)
    assert isinstance(client.link, ThreadLink)
    host = client.link._host
    assert isinstance(host, EventLoopHost)
    assert host._inline is not None
    host._inline.record([(1, 0.01)] * 8)  # as a thread next to a busy loop would see it
    for n in range(3):
        client.submit(a_request(str(n)))
        await client.ends_of(str(n))
    here = threading.current_thread()
    assert [thread is here for thread in model.threads] == [False, True, True]
    await client.link.close()
