"""`TorchStep`: runs a step plan: moves blocks, runs the decoder, samples, and keeps the ids for the next plan."""

import time
from collections.abc import Callable

from typing_extensions import override

from penstock_runtime.engine.continuous.limits import GenerationInfo
from penstock_runtime.engine.continuous.sequence import SampledToken
from penstock_runtime.engine.continuous.steps.interfaces import StepExecutor
from penstock_runtime.engine.continuous.steps.sampling_inputs import SamplingInputs
from penstock_runtime.engine.continuous.steps.step_plan import StepPlan, StepResult
from penstock_runtime.models.decoders.kv_store import BlockStore
from penstock_runtime.models.decoders.packing import Packer
from penstock_runtime.models.decoders.sampling.prompt_logprobs import score
from penstock_runtime.models.decoders.sampling.sampler import sample
from penstock_runtime.models.decoders.torch_decoders.transformers_decoder import Decoder
from penstock_runtime.models.device.device import raise_as_device_error


class TorchStep(StepExecutor):
    """A step executor over a decoder and its block store."""

    def __init__(self, info: GenerationInfo, decoder: Decoder, store: BlockStore) -> None:
        self.info = info
        self._decoder = decoder
        self._store = store
        self._packer = Packer(
            info.kv.block_tokens, info.max_running, -(-info.max_model_len // info.kv.block_tokens)
        )
        self._last: tuple[int, list[SampledToken | None]] = (-1, [])

    @override
    def run(self, plan: StepPlan, inputs: Callable[[], SamplingInputs]) -> StepResult:
        began, captures = time.monotonic(), self._decoder.captures
        awaited = self._awaited(plan)
        self._last = (plan.number, [None] * len(plan.rows))  # remains if this step raises
        try:
            self._store.move(plan)
            result = (
                self._rows(plan, inputs, awaited) if plan.rows else StepResult(plan, [], {}, 0.0)
            )
        except (MemoryError, RuntimeError) as error:
            raise_as_device_error(error)
            raise
        self._last = (plan.number, result.sampled)
        result.captured = self._decoder.captures != captures
        result.began, result.seconds = began, time.monotonic() - began
        return result

    def _rows(
        self, plan: StepPlan, inputs: Callable[[], SamplingInputs], awaited: dict[int, int]
    ) -> StepResult:
        packed = self._packer.pack(plan, awaited)
        logits = self._decoder.forward(packed)
        result = StepResult(plan, [None] * len(plan.rows), {}, 0.0)
        samples = sum([row.samples for row in plan.rows])
        if len(packed.last) > samples:
            result.scored = score(logits[samples:], plan)
        if samples:
            sampling = inputs()
            tokens, result.failed = sample(logits[:samples], sampling)
            for draw, token in zip(sampling.draws, tokens, strict=True):
                if draw.row not in result.failed:
                    result.sampled[draw.row] = token
        return result

    def _awaited(self, plan: StepPlan) -> dict[int, int]:
        """Return the ids that rows of this plan depend on; 0 for a row that failed."""
        number, sampled = self._last
        ids = {}
        for index, row in enumerate(plan.rows):
            if row.placeholder is not None:
                if row.placeholder.step != number:
                    raise ValueError(
                        f"plan {plan.number} depends on step {row.placeholder.step}, but the last step was {number}"
                    )
                token = sampled[row.placeholder.row]
                ids[index] = 0 if token is None else token.token
        return ids
