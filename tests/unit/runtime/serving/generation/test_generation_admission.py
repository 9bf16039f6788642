"""What batch work finds of the queue."""

from types import SimpleNamespace
from typing import Any

import pytest

from penstock_api.names import BATCH_PRIORITY
from penstock_runtime.engine.continuous.messages import Generate, ToGeneration
from penstock_runtime.engine.continuous.sampling_params import SamplingParams
from penstock_runtime.errors import BatchWorkWaits
from penstock_runtime.serving.counters import Counters
from penstock_runtime.serving.generation.admission import GenerationAdmission
from penstock_runtime.serving.generation.counters import GenerationCounters
from penstock_runtime.serving.generation.mailbox import Mailbox
from penstock_runtime.serving.health import Health, Stage

DEPTH = 100


class Queue:
    """The admission of an engine that runs nothing."""

    def __init__(self) -> None:
        self.sent: list[ToGeneration] = []
        self.counters = Counters()
        health = Health()
        health.stage = Stage.SERVING
        live = SimpleNamespace(accepted=SimpleNamespace(max_queue_depth=DEPTH), report=None)
        state: Any = SimpleNamespace(
            live=live, health=health, counters=self.counters, now=lambda: 1.0
        )
        self.admission = GenerationAdmission(self.sent.append, state, GenerationCounters(), 2**30)

    def submit(self, prompts: int) -> int:
        """Submit a body of batch work; return how many requests wait then."""
        admission = self.admission
        with (
            admission.receive() as first,
            admission.receive_prompts(first, prompts, BATCH_PRIORITY) as tickets,
        ):
            for ticket in tickets:
                generate = Generate(
                    ticket.id, (1,), SamplingParams(1), 0.0, priority=BATCH_PRIORITY
                )
                admission.begin(ticket, generate, Mailbox())
            return admission.waiting()


def test_a_body_with_more_prompts_than_the_share_of_batch_work_is_admitted_to_an_empty_queue() -> (
    None
):
    assert Queue().submit(30) == 30


def test_batch_work_waits_before_any_of_its_prompts_is_submitted() -> None:
    queue = Queue()
    with (
        queue.admission.receive() as first,
        queue.admission.receive_prompts(first, 25, 0) as tickets,
    ):
        for ticket in tickets:
            queue.admission.begin(
                ticket, Generate(ticket.id, (1,), SamplingParams(1), 0.0), Mailbox()
            )
        sent = list(queue.sent)
        with pytest.raises(BatchWorkWaits, match="25 requests wait"):
            queue.submit(2)
        assert queue.sent == sent
    assert queue.counters.rejected["BatchWorkWaits"] == 1
