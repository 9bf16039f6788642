"""What batch work finds of the queue, which of its requests count as waiting, and what the end of one measures."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from penstock_api.names import BATCH_PRIORITY
from penstock_runtime.engine.continuous.messages import (
    Ended,
    Generate,
    Generated,
    Resumption,
    ToGeneration,
    TokensEmitted,
    Usage,
)
from penstock_runtime.engine.continuous.sampling_params import SamplingParams
from penstock_runtime.errors import BadInput, BatchWorkWaits
from penstock_runtime.serving.admission.ticket import Ticket
from penstock_runtime.serving.counters import Counters
from penstock_runtime.serving.generation.admission import GenerationAdmission
from penstock_runtime.serving.generation.counters import GenerationCounters
from penstock_runtime.serving.generation.mailbox import Mailbox
from penstock_runtime.serving.health import Health, Stage

DEPTH = 100


class Queue:
    """The admission of an engine that runs nothing."""

    def __init__(self, depth: int = DEPTH) -> None:
        self.sent: list[ToGeneration] = []
        self.counters = Counters()
        health = Health()
        health.stage = Stage.SERVING
        self.time = 1.0
        self.tokens = GenerationCounters()
        self.live = SimpleNamespace(accepted=SimpleNamespace(max_queue_depth=depth), report=None)
        state: Any = SimpleNamespace(
            live=self.live, health=health, counters=self.counters, now=lambda: self.time
        )
        self.admission = GenerationAdmission(self.sent.append, state, self.tokens, 2**30)

    @contextmanager
    def submitted(self, first: Ticket, prompts: int, priority: int) -> Iterator[None]:
        """Have the prompts of the body of `first` wait."""
        with self.admission.receive_prompts(first, prompts, priority) as tickets:
            for ticket in tickets:
                generate = Generate(ticket.id, (1,), SamplingParams(1), 0.0, priority=priority)
                self.admission.begin(ticket, generate, Mailbox(self.admission.memory.unread_tokens))
            yield

    def submit(self, prompts: int) -> int:
        """Submit a body of batch work; return how many requests wait then."""
        with self.admission.receive() as first, self.submitted(first, prompts, BATCH_PRIORITY):
            return self.admission.waiting()


def test_a_body_with_more_prompts_than_the_share_of_batch_work_is_admitted_to_an_empty_queue() -> (
    None
):
    assert Queue().submit(26) == 26


def test_a_body_of_batch_work_leaves_half_of_the_queue_free() -> None:
    queue = Queue()
    with pytest.raises(BadInput, match="27 prompts: a body of batch work may have 26 where"):
        queue.submit(27)
    with queue.admission.receive() as first, queue.submitted(first, 24, 0):
        assert queue.submit(26) == 50


@pytest.mark.parametrize("depth", [1, 2, 3, 4, 64, 2048])
def test_a_body_of_batch_work_that_is_no_error_waits_for_a_quarter_of_the_queue_alone(
    depth: int,
) -> None:
    most = max(1, depth // 2 - max(1, depth // 4) + 1)
    queue = Queue(depth)
    assert queue.submit(most) == most
    with pytest.raises(BadInput):
        queue.submit(most + 1)


def test_batch_work_waits_before_any_of_its_prompts_is_submitted() -> None:
    queue = Queue()
    with queue.admission.receive() as first, queue.submitted(first, 25, 0):
        sent = list(queue.sent)
        with pytest.raises(BatchWorkWaits, match="25 requests wait"):
            queue.submit(2)
        assert queue.sent == sent
    assert queue.counters.rejected["BatchWorkWaits"] == 1


def test_requests_that_wait_for_running_batch_work_are_demand() -> None:
    queue = Queue()
    with (
        queue.admission.receive() as batch,
        queue.submitted(batch, 10, BATCH_PRIORITY),
        queue.admission.receive() as first,
        queue.submitted(first, 5, 0),
    ):
        queue.live.report = SimpleNamespace(running=8, running_batch_work=8)
        assert queue.admission.load().model_dump() == {"waiting": 5, "running": 8}
        queue.live.report = SimpleNamespace(running=8, running_batch_work=4)
        assert queue.admission.load().model_dump() == {"waiting": 1, "running": 8}


@pytest.mark.parametrize(
    ("resumed", "choices"), [((), range(4)), ((Resumption(1, (7,)), Resumption(3, ())), (1, 3))]
)
def test_the_time_per_output_token_is_that_of_the_choices_generated_here(
    resumed: tuple[Resumption, ...], choices: Sequence[int]
) -> None:
    queue = Queue()
    with queue.admission.receive() as ticket, queue.admission.receive_prompts(ticket, 1, 0):
        generate = Generate(ticket.id, (1,), SamplingParams(11), 0.0, n=4, resumed=resumed)
        queue.admission.begin(ticket, generate, Mailbox(queue.admission.memory.unread_tokens))
        for token in range(11):
            queue.admission.deliver_events(
                TokensEmitted(ticket.id, choice, (token,)) for choice in choices
            )
            queue.time += 0.5
        queue.time -= 0.5
        usage = Usage(1, 11 * len(choices), 0, 0.0, 0)
        queue.admission.deliver_events([Ended(ticket.id, Generated(usage))])
    assert queue.tokens.token_seconds.total == pytest.approx(0.5)
