"""A device that keeps a value where a real one keeps keys and values: of the token and of all values before it.

So a block that was overwritten, shared too early, forgotten, restored or computed wrongly changes the next token, and
the whole of scheduler, ledger and swap is checked by comparing outputs with a walk through an empty machine.
"""

from collections import Counter
from collections.abc import Callable
from collections.abc import Sequence as Items
from dataclasses import dataclass, field

from penstock_api.pod_contract import Discipline
from penstock_runtime.engine.continuous.limits import (
    GenerationInfo,
    GenerationLimits,
    KVSpec,
    Lowering,
    Preemption,
)
from penstock_runtime.engine.continuous.sampling_params import SamplingParams
from penstock_runtime.engine.continuous.scheduler.preemption import PreemptionCosts
from penstock_runtime.engine.continuous.scheduler.scheduler import TokenScheduler
from penstock_runtime.engine.continuous.sequence import RequestSpec, Sequence, TokenRef
from penstock_runtime.engine.continuous.steps.step_plan import Idle, StepPlan

VOCABULARY = 997
SWAP = PreemptionCosts(prefill_token_seconds=1.0, copied_block_seconds=0.0)
RECOMPUTE = PreemptionCosts(prefill_token_seconds=0.0, copied_block_seconds=1.0)


def info(blocks: int = 64, block_tokens: int = 4, host_blocks: int = 0) -> GenerationInfo:
    """Return a model of that many blocks."""
    return GenerationInfo(
        name="fake",
        backend="test",
        attention="none",
        dtype="int",
        vocabulary=VOCABULARY,
        max_model_len=blocks * block_tokens,
        kv=KVSpec(block_tokens, blocks, host_blocks, block_bytes=1),
        stop_ids=(),
        max_running=256,
        revision="1",
    )


def limits(
    *,
    cap: int = 8,
    tokens: int = 64,
    discipline: Discipline = Discipline.FIRST_IN_FIRST_OUT,
    preemption: Preemption = Preemption.NEVER,
    lowering: Lowering = Lowering.FINISH,
    generation: int = 1,
) -> GenerationLimits:
    """Return limits with a queue that is deep enough not to matter."""
    return GenerationLimits(
        generation, cap, max(cap, tokens), 1_000_000, discipline, preemption, lowering
    )


def a_sequence(
    uid: int,
    prompt: Items[int] | int = 8,
    answer: int = 8,
    *,
    priority: int = 0,
    tenant: str = "",
    arrived: float = 0.0,
    deadline: float | None = None,
    request: str | None = None,
    choice: int = 0,
    salt: str = "",
) -> Sequence:
    """Return a sequence; a number as prompt stands for that many ids that no other sequence shares."""
    ids = (
        [(uid * 131 + n * 7 + 1) % VOCABULARY for n in range(prompt)]
        if isinstance(prompt, int)
        else list(prompt)
    )
    spec = RequestSpec(
        id=request or f"r{uid}",
        prompt_tokens=len(ids),
        params=SamplingParams(max_tokens=answer),
        seed=0,
        arrived=arrived,
        deadline=deadline,
        priority=priority,
        tenant=tenant,
        salt=salt,
    )
    return Sequence(uid, spec, choice, ids)


def computed_from(read: Items[int], token_id: int) -> int:
    """Return what the model keeps of `token_id` at its position after it has read those before."""
    state = 17
    for value in [*read, token_id]:
        state = (state * 31 + value + 1) % 1_000_003
    return state


def next_id(read: Items[int], choice: int) -> int:
    """Return the output of the model after all positions."""
    return computed_from(read, choice) % VOCABULARY


def alone(sequence: Sequence, prompt: Items[int]) -> list[int]:
    """Return what `sequence` must answer, walked through without any scheduler."""
    ids, read = list(prompt), list[int]()
    for _ in range(sequence.params.max_tokens):
        for token_id in ids[len(read) :]:
            read.append(computed_from(read, token_id))
        ids.append(next_id(read, sequence.choice))
    return ids


@dataclass
class Machine:
    """Scheduler, device and the engine's order of work; `depth` plans may be in flight."""

    scheduler: TokenScheduler
    info: GenerationInfo
    depth: int = 1
    now: float = 0.0
    seconds: Callable[[StepPlan], float] = lambda _: 0.01
    """How long a step takes."""
    exact: bool = True
    """Whether values are really kept and read: slow where sequences are long."""
    raises: Callable[[], bool] = lambda: False
    """Whether the rows of the next step raise before they compute anything."""
    steps: int = 0
    plans: list[StepPlan] = field(default_factory=list)
    finished: dict[int, float] = field(default_factory=dict)
    """When the sequence with that uid had its last token."""
    first_token: dict[int, float] = field(default_factory=dict)
    prompts: dict[int, list[int]] = field(default_factory=dict)
    live: dict[int, Sequence] = field(default_factory=dict)
    fed: Counter[str] = field(default_factory=Counter)
    """Positions fed per tenant."""

    def __post_init__(self) -> None:
        spec = self.info.kv
        self._device = [[-1] * spec.block_tokens for _ in range(spec.blocks)]
        self._host = [[-1] * spec.block_tokens for _ in range(spec.host_blocks)]
        self._sampled: dict[TokenRef, int] = {}

    def add(self, *sequences: Sequence) -> None:
        for sequence in sequences:
            self.prompts[sequence.uid] = list(sequence.ids)
            self.live[sequence.uid] = sequence
            self.scheduler.add(sequence, self.now)

    def cancel(self, uid: int) -> None:
        self.scheduler.remove(self.live.pop(uid))

    def step(self, meanwhile: Callable[[], None] = lambda: None) -> bool:
        """Plan ahead as far as `depth` allows, run and settle one plan; return whether anything ran.

        `meanwhile` happens while it runs: what is planned ahead has been planned before.
        """
        while len(self.plans) <= self.depth:
            running = self.scheduler.report().running
            plan = self.scheduler.plan(self.now)
            if self.exact:
                self.scheduler.kv.check()
            if isinstance(plan, Idle):
                break
            limits = self.scheduler._planner.limits
            surplus = running if limits.lowering is Lowering.FINISH else 0
            assert plan.tokens <= max(limits.max_batched_tokens, self.scheduler.cap, surplus)
            self.plans.append(plan)
        if not self.plans:
            return False
        plan = self.plans.pop(0)
        tokens = self._run(plan)
        meanwhile()
        self.now += self.seconds(plan)
        self.steps += 1
        for row in plan.rows:
            self.fed[row.sequence.request.tenant] += row.count
        if tokens is None:
            self._fail(plan)
        else:
            self._settle(plan, tokens)
        return True

    def run(self, max_steps: int = 10_000) -> None:
        """Step until nothing is left to do."""
        for _ in range(max_steps):
            if not self.step():
                assert not self.live, f"{len(self.live)} are left without an end"
                return
        raise AssertionError(f"not done after {max_steps} steps")

    def _run(self, plan: StepPlan) -> list[int | None] | None:
        """Return the sampled tokens, or None where the rows raise."""
        if not self.exact:
            return [0 if row.samples else None for row in plan.rows]
        for copy in plan.swap_out:
            self._host[copy.target] = list(self._device[copy.source])
        for copy in plan.swap_in:
            self._device[copy.target] = list(self._host[copy.source])
        for copy in plan.copies:
            self._device[copy.target] = list(self._device[copy.source])
        if self.raises():
            self._sampled.update((TokenRef(plan.number, row), 0) for row in range(len(plan.rows)))
            return None
        size, tokens = self.info.kv.block_tokens, list[int | None]()
        for index, row in enumerate(plan.rows):
            fed = (
                row.sequence.ids[row.start : row.start + row.count]
                if row.placeholder is None
                else [self._sampled[row.placeholder]]
            )
            assert len(fed) == row.count, (row.start, row.count, row.placeholder)
            read = [self._device[row.blocks[at // size]][at % size] for at in range(row.start)]
            for at, token_id in enumerate(fed, row.start):
                read.append(computed_from(read, token_id))
                self._device[row.blocks[at // size]][at % size] = read[at]
            token = None
            if row.samples:
                token = self._sampled[TokenRef(plan.number, index)] = next_id(
                    read, row.sequence.choice
                )
            tokens.append(token)
        return tokens

    def _fail(self, plan: StepPlan) -> None:
        """End the requests of a plan that raised, and settle it."""
        failed = {row.sequence.request.id for row in plan.rows}
        for sequence in [s for s in self.live.values() if s.request.id in failed]:
            self.cancel(sequence.uid)
        self.scheduler.settle(plan, range(len(plan.rows)))

    def _settle(self, plan: StepPlan, tokens: list[int | None]) -> None:
        ended = []
        for row, token in zip(plan.rows, tokens, strict=True):
            sequence = row.sequence
            if token is None or sequence.uid not in self.live or sequence.finished is not None:
                continue
            self.first_token.setdefault(sequence.uid, self.now)
            if sequence.append(token) is not None:
                ended.append(sequence)
        self.scheduler.settle(plan)
        for sequence in ended:
            self.finished[sequence.uid] = self.now
            del self.live[sequence.uid]
            assert not self.exact or sequence.ids == alone(sequence, self.prompts[sequence.uid])
            self.scheduler.remove(sequence)
        if self.exact:
            self.scheduler.kv.check()


def a_machine(
    *,
    blocks: int = 64,
    block_tokens: int = 4,
    host_blocks: int = 0,
    depth: int = 1,
    costs: PreemptionCosts = RECOMPUTE,
    initial_limits: GenerationLimits | None = None,
) -> Machine:
    """Return an idle machine."""
    model = info(blocks, block_tokens, host_blocks)
    return Machine(TokenScheduler(model, initial_limits or limits(), costs), model, depth)
