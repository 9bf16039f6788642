"""Random lives of an engine: arrivals, limits, preemption, prefix hits, choices and cancellations, from a seed."""

import random
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from penstock_api.pod_contract import Discipline
from penstock_runtime.engine.continuous.limits import GenerationLimits, Lowering, Preemption
from penstock_runtime.engine.continuous.messages import Generated
from penstock_runtime.engine.continuous.sampling_params import SamplingParams
from penstock_runtime.engine.continuous.scheduler.preemption import PreemptionCosts
from penstock_runtime.engine.continuous.scheduler.scheduler import TokenScheduler
from penstock_runtime.engine.continuous.steps.interfaces import StepExecutor
from penstock_runtime.engine.continuous.steps.runner import Runner
from penstock_runtime.engine.messages import Cancel, SetLimits
from penstock_runtime.request import Cancelled
from tests.unit.runtime.engine.continuous.driver import Driver, generate_request, limits_update
from tests.unit.runtime.engine.continuous.late import LateGrammars
from tests.unit.runtime.models.decoders.tiny_models import VOCABULARY

auto: Any = AutoModelForCausalLM

LONGEST_ANSWER = 32
MIN_MARGIN = 1e-8
"""Between the two best logits of a reference: closer ones would make its choice an accident of rounding."""
RECOMPUTE = PreemptionCosts(prefill_token_seconds=0.0, copied_block_seconds=1.0)
SWAP = PreemptionCosts(prefill_token_seconds=1.0, copied_block_seconds=0.0)


def prompts(scale: int = 1) -> list[tuple[int, ...]]:
    """Return prompts of which many begin alike, by up to 20 * `scale` ids."""
    chance = random.Random(20261121)  # noqa: S311 - no secret
    stems = [[chance.randrange(VOCABULARY) for _ in range(20 * scale)] for _ in range(2)]
    sampled_prompts = []
    for n in range(16):
        own = [chance.randrange(VOCABULARY) for _ in range(chance.randint(1, 12))]
        sampled_prompts.append((*stems[n % 2][: chance.choice([0, 8, 13, 20]) * scale], *own))
    return sampled_prompts


@cache
def references(folder: Path, dtype: torch.dtype, scale: int = 1) -> list[tuple[int, ...]]:
    """Return what transformers' own generate() says after each prompt, alone, without padding."""
    model = auto.from_pretrained(folder, dtype=dtype, attn_implementation="eager")
    answers = []
    for prompt in prompts(scale):
        out = model.generate(
            torch.tensor([prompt]),
            attention_mask=torch.ones(
                1, len(prompt), dtype=torch.long
            ),  # 0 is an id like any other
            max_new_tokens=LONGEST_ANSWER,
            do_sample=False,
            pad_token_id=0,
            output_logits=True,
            return_dict_in_generate=True,
        )
        best = torch.stack(out.logits).squeeze(1).topk(2).values
        assert (best[:, 0] - best[:, 1]).min() >= MIN_MARGIN
        answers.append(tuple(out.sequences[0, len(prompt) :].tolist()))
    return answers


@dataclass
class Tally:
    """How often the scenarios met what they are for."""

    requests: int = 0
    cancelled: int = 0
    preemptions: int = 0
    swapped_blocks: int = 0
    recomputed_tokens: int = 0
    prefix_hit_tokens: int = 0
    matched: int = 0
    tokens: int = 0


@dataclass
class Scenario:
    """One life of an engine around `step`; `asked` is which prompt and how long an answer, by id.

    With blocks of 8 * `scale` positions the prefix cache finds as much, and memory is as tight, as with blocks of 8.
    """

    step: StepExecutor
    seed: int
    runner: Runner
    scale: int = 1
    shaped: float = 0.0
    """The share of requests under a grammar that allows everything, often late."""
    asked: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    cancelled: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)  # noqa: S311 - no secret
        kv = self.step.info.kv
        few = replace(
            kv, blocks=max(3, self.chance.choice([9, 12, 20]) * 8 * self.scale // kv.block_tokens)
        )
        few = replace(few, host_blocks=self.chance.choice([0, 5, kv.host_blocks]))
        info = replace(self.step.info, kv=few)
        costs = self.chance.choice([SWAP, RECOMPUTE])
        self.scheduler = TokenScheduler(info, self._limits(1), costs)
        self.grammars = LateGrammars(VOCABULARY, self.seed)
        self.driver = Driver(self.step, self.scheduler, self.runner, self.grammars)

    def _limits(self, generation: int) -> GenerationLimits:
        cap = self.chance.choice([1, 2, 4, 6])
        return GenerationLimits(
            generation=generation,
            max_batch_size=cap,
            max_batched_tokens=max(cap, self.chance.choice([4, 9, 32, 128]) * self.scale),
            max_queue_depth=1000,
            discipline=self.chance.choice(list(Discipline)),
            preemption=self.chance.choice(list(Preemption)),
            lowering=self.chance.choice(list(Lowering)),
        )

    def live(self, turns: int = 30) -> None:
        """Let things happen for so many turns, then wait until all have ended."""
        all_prompts = prompts(self.scale)
        for turn in range(turns):
            for _ in range(self.chance.choice([0, 0, 1, 1, 2])):
                self._arrive(all_prompts)
            if self.chance.random() < 0.25:
                self.driver.engine.take(
                    SetLimits(limits_update(self._limits(turn + 2))), self.driver.now
                )
            if self.asked and self.chance.random() < 0.06:
                name = self.chance.choice(list(self.asked))
                self.cancelled.add(name)
                self.driver.engine.take(Cancel((name,)), self.driver.now)
            self.driver.turn()
            self.scheduler.kv.check()
        self.driver.run()
        self.scheduler.kv.check()

    def _arrive(self, all_prompts: list[tuple[int, ...]]) -> None:
        name, which = f"r{len(self.asked)}", self.chance.randrange(len(all_prompts))
        tokens, n = self.chance.randint(1, LONGEST_ANSWER), self.chance.choice([1, 1, 1, 2])
        self.asked[name] = (which, tokens, n)
        request = generate_request(
            name,
            list(all_prompts[which]),
            params=SamplingParams(max_tokens=tokens, temperature=0.0),
            n=n,
            priority=self.chance.randint(0, 10),
            tenant=self.chance.choice("ab"),
            salt=self.chance.choice(["", "", "other"]),
            grammar="any" if self.shaped and self.chance.random() < self.shaped else None,
        )
        self.driver.engine.take(replace(request, arrived=self.driver.now), self.driver.now)

    def check_ends(self) -> None:
        """Assert that every request has one end, and that every block came back."""
        assert set(self.driver.ends) == set(self.asked)
        for name, end in self.driver.ends.items():
            wanted = (Generated, Cancelled) if name in self.cancelled else Generated
            assert isinstance(end, wanted), (name, end)
        report = self.scheduler.report()
        assert (report.waiting, report.running, report.used_blocks) == (0, 0, 0)

    def answers(self) -> list[tuple[int, int, list[int]]]:
        """Return prompt, requested length and token ids of every choice of the requests that were not cancelled."""
        return [
            (which, tokens, self.driver.tokens[name, choice])
            for name, (which, tokens, n) in self.asked.items()
            if isinstance(self.driver.ends[name], Generated)
            for choice in range(n)
        ]

    def add_to(self, tally: Tally) -> None:
        """Count what happened."""
        report = self.scheduler.report()
        tally.requests += len(self.asked)
        tally.cancelled += len(self.cancelled)
        tally.preemptions += report.preemptions
        tally.swapped_blocks += report.swapped_blocks
        tally.recomputed_tokens += report.recomputed_tokens
        tally.prefix_hit_tokens += report.prefix_hit_tokens
