"""A step executor without a model: the token after position p is p, so every answer is known in advance."""

from collections.abc import Callable

from penstock_api.pod_contract import Discipline
from penstock_runtime.engine.continuous.limits import (
    GenerationInfo,
    GenerationLimits,
    KVSpec,
    Preemption,
)
from penstock_runtime.engine.continuous.sequence import SampledToken
from penstock_runtime.engine.continuous.steps.sampling_inputs import SamplingInputs
from penstock_runtime.engine.continuous.steps.step_plan import StepPlan, StepResult
from penstock_runtime.engine.model import DeviceLost

INFO = GenerationInfo(
    name="counting",
    backend="cpu",
    attention="none",
    dtype="float32",
    vocabulary=1000,
    max_model_len=256,
    kv=KVSpec(block_tokens=8, blocks=64, host_blocks=0, block_bytes=1),
    stop_ids=(),
    max_running=16,
    revision="1",
)
LIMITS = GenerationLimits(
    generation=1,
    max_batch_size=8,
    max_batched_tokens=32,
    max_queue_depth=100,
    discipline=Discipline.FIRST_IN_FIRST_OUT,
    preemption=Preemption.NEVER,
)


class CountingStep:
    """Samples the position as the token; can be set to raise, to spoil a row or to lose its device."""

    info = INFO

    def __init__(self) -> None:
        self.inputs: list[SamplingInputs] = []
        self.breaks_on: str | None = None
        self.breaks_once: str | None = None
        self.spoils: tuple[str, int] | None = None
        """Request id and choice."""
        self.spoils_with: int | None = None
        """Only in a step that also draws this position; None: in every step."""
        self.lost = False

    def run(self, plan: StepPlan, inputs: Callable[[], SamplingInputs]) -> StepResult:
        if self.lost:
            raise DeviceLost("gone")
        names = [row.sequence.request.id for row in plan.rows]
        if self.breaks_on in names or self.breaks_once in names:
            self.breaks_once = None
            raise RuntimeError("bad kernel")
        wanted = inputs()
        self.inputs.append(wanted)
        sampled: list[SampledToken | None] = [None] * len(plan.rows)
        failed: dict[int, str] = {}
        drawn = {draw.position for draw in wanted.draws}
        for draw in wanted.draws:
            choice = names[draw.row], draw.choice
            if choice == self.spoils and self.spoils_with in {None, *drawn}:
                failed[draw.row] = "not a number"
            else:
                sampled[draw.row] = SampledToken(draw.position)
        return StepResult(plan, sampled, failed, seconds=0.25)
