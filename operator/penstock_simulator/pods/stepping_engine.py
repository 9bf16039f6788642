"""The engine of a pod that generates text: one step at a time, and the counters that it publishes. Pure.

As in the runtime (`penstock_runtime.engine.continuous`): a step feeds every decoding sequence a token, and prompts in chunks,
the first to arrive first, up to a budget of tokens. Where the cache lacks room for the next tokens, the last to arrive gives
its place and is computed again later.
"""

from heapq import heapify, heappop, heappush
from math import inf

from typing_extensions import override

from penstock_api.pod_contract import CurveSums
from penstock_operator.observed import GenerationSample
from penstock_simulator.batch_time import Noise, ServiceModel
from penstock_simulator.pods.engine import WARM_UP_SECONDS, SimulatedEngine
from penstock_simulator.pods.step_time import KV_UNIT, PREFILL_UNIT, StepModel

EPOCH_STEPS = 2**16
"""Steps of an epoch of the sums, as in the runtime."""
CHUNKS, CONTEXTS = (32, 256), (17, 193)
"""Prompts, and tokens read by a row, of the steps that are timed at load."""


class RunningSequence:
    """One request: `fed` of `prompt` tokens are computed, and `left` of the answer are not generated."""

    __slots__ = ("arrived", "fed", "first", "last_round", "left", "prompt", "tokens")

    def __init__(self, arrived: float, prompt: int, answer: int) -> None:
        self.arrived = arrived
        self.prompt = prompt
        """Tokens to compute before the next one of the answer; after a preemption with those already generated."""
        self.left = answer
        self.tokens = answer
        self.fed = 0
        self.first = inf
        self.last_round = 0
        """Decode round of the last token."""

    def __lt__(self, other: "RunningSequence") -> bool:
        return self.arrived < other.arrived


class SteppingEngine(SimulatedEngine):
    """Runs the steps of a pod; a step is counted on the first read after its end."""

    __slots__ = (
        "_curve", "_epoch", "_first_tokens", "_held", "_model", "_objectives", "_open", "_output_tokens", "_previous", "_round",
        "_settled_busy", "answers", "context", "decoding", "generated", "preempted", "preemptions", "prefilling", "rows",
    )  # fmt: skip

    def __init__(
        self,
        model: StepModel,
        noise: Noise | None,
        max_rows: int,
        objectives: tuple[float, float, float],
    ) -> None:
        """`objectives` are of the request, the first token and an output token, in seconds; infinite without one."""
        plain = ServiceModel(model.a, model.d, model.sigma, model.tail_share, model.tail_factor, model.overhead)  # fmt: skip
        super().__init__(plain, noise, max_rows, objectives[0])
        self._model = model
        self._objectives = objectives
        self._round = 0
        self._held = 0
        self._open: tuple[int, int, int, float] | None = None
        """The running step: prefill tokens, rows, tokens read, seconds."""
        self.prefilling: list[RunningSequence] = []
        """By arrival."""
        self.decoding: list[tuple[int, RunningSequence]] = []
        """Heap of (round of the last token, sequence)."""
        self.preempted: list[RunningSequence] = []
        """Heap by arrival."""
        self.rows = 0
        """Decoding sequences."""
        self.context = 0
        """Tokens of the decoding sequences."""
        self.generated = 0
        self.preemptions = 0
        self.answers: list[tuple[float, float, float, int]] = []
        """Completed: arrival, first token, last token, tokens."""
        self._first_tokens, self._output_tokens = [0, 0], [0, 0]
        """Completed requests within the objective, and all."""
        self._epoch, self._curve = 0, [0.0] * 15
        self._previous: tuple[float, ...] = ()
        self._settled_busy = 0.0
        self._time_shapes(max_rows)

    def _time_shapes(self, max_rows: int) -> None:
        """Publish steps of several shapes as epoch 0, as the runtime does at load."""
        shapes, rows = [(chunk, 0, chunk) for chunk in CHUNKS], 1
        while rows < 2 * max_rows:
            rows = min(rows, max_rows)
            shapes += [(0, rows, rows * context) for context in CONTEXTS]
            rows *= 2
        spent = 0.0
        for shape in shapes:
            seconds = self._timed(*shape)
            self._count(*shape, seconds)
            spent += 2 * seconds
            if spent > WARM_UP_SECONDS:
                break
        self._next_epoch()

    def _timed(self, prefill: int, rows: int, context: int) -> float:
        seconds = self._model.seconds(prefill, rows, context)
        return seconds if self.noise is None else seconds * self.noise.factor()

    def _next_epoch(self) -> None:
        self._previous = tuple(self._curve)
        self._epoch, self._curve = self._epoch + 1, [0.0] * 15

    def _count(self, prefill: int, rows: int, context: int, t: float) -> None:
        """Add the products of one step, row by row of the upper triangle."""
        sums, p, k = self._curve, prefill / PREFILL_UNIT, context / KV_UNIT
        sums[0] += 1.0
        sums[2] += rows
        sums[3] += k
        sums[4] += t
        sums[9] += rows * rows
        sums[10] += rows * k
        sums[11] += rows * t
        sums[12] += k * k
        sums[13] += k * t
        sums[14] += t * t
        if prefill:
            sums[1] += p
            sums[5] += p * p
            sums[6] += p * rows
            sums[7] += p * k
            sums[8] += p * t

    @property
    def sequences(self) -> int:
        """Return the number of running sequences."""
        return self.rows + len(self.prefilling)

    def room(self) -> int:
        """Return the free tokens of the cache, without what the running sequences need next."""
        cache = self._model.cache_tokens
        reserve = max(self.rows, cache // 100) if self.sequences else 0
        return cache - self._held - reserve

    def budget(self, cap: int) -> int:
        """Return the tokens of a step that decoding sequences leave."""
        return max(self._model.step_tokens, cap) - self.rows

    def admit(self, sequence: RunningSequence) -> None:
        """Give a waiting sequence its place, and the cache of its prompt."""
        sequence.fed = 0
        self._held += sequence.prompt
        self.prefilling.append(sequence)

    def begin(self, start: float, cap: int) -> None:
        """Begin a step of all running sequences."""
        while self._held + self.rows > self._model.cache_tokens and self.sequences > 1:
            self._preempt()
        rows, prefill, left = self.rows, 0, self.budget(cap)
        context = self.context + rows
        for sequence in self.prefilling:
            if left <= 0:
                break
            chunk = min(left, sequence.prompt - sequence.fed)
            sequence.fed += chunk
            prefill += chunk
            left -= chunk
            context += sequence.fed
        seconds = self._timed(prefill, rows, context)
        self._open = (prefill, rows, context, seconds)
        self.free_at = start + seconds

    def finish(self) -> None:
        """Count the step that has ended, if any: each decoding sequence has a token more, and each whole prompt its first."""
        if self._open is None:
            return
        step, self._open = self._open, None
        if self._curve[0] >= EPOCH_STEPS:
            self._next_epoch()
        self._count(*step)
        self._settled_busy += step[3]
        if self.rows:
            self._decoded()
        if step[0]:
            whole = [each for each in self.prefilling if each.fed >= each.prompt]
            if whole:
                self.prefilling = [each for each in self.prefilling if each.fed < each.prompt]
            for sequence in whole:
                self._emit(sequence)

    def _decoded(self) -> None:
        rows, decoding = self.rows, self.decoding
        self._round += 1
        self._held += rows
        self.context += rows
        self.generated += rows
        while decoding and decoding[0][0] <= self._round:
            _, sequence = heappop(decoding)
            size = sequence.prompt + sequence.left - 1  # the last token is not fed
            self.rows -= 1
            self.context -= size
            self._end(sequence, size)

    def _emit(self, sequence: RunningSequence) -> None:
        """Generate the token after a prompt; the others follow one a step."""
        self.generated += 1
        sequence.first = min(sequence.first, self.free_at)
        if sequence.left <= 1:
            self._end(sequence, sequence.prompt)
            return
        sequence.last_round = self._round + sequence.left - 1
        heappush(self.decoding, (sequence.last_round, sequence))
        self.rows += 1
        self.context += sequence.prompt

    def _end(self, sequence: RunningSequence, size: int) -> None:
        self._held -= size
        first, last, tokens = sequence.first, self.free_at, sequence.tokens
        self.answers.append((sequence.arrived, first, last, tokens))
        request, first_token, output_token = self._objectives
        overhead = self._model.overhead
        self.completed += 1
        self.good += last - sequence.arrived + overhead <= request
        self._first_tokens[0] += first - sequence.arrived + overhead <= first_token
        self._first_tokens[1] += 1
        if tokens > 1:
            self._output_tokens[0] += (last - first) / (tokens - 1) <= output_token
            self._output_tokens[1] += 1

    def _preempt(self) -> None:
        """Take the place of the last to arrive; its tokens are computed again."""
        victim = max([*(sequence for _, sequence in self.decoding), *self.prefilling])
        self.preemptions += 1
        if victim in self.prefilling:
            self.prefilling.remove(victim)
            self._held -= victim.prompt
        else:
            left = victim.last_round - self._round
            size = victim.prompt + victim.left - left
            self.rows -= 1
            self.context -= size - 1
            self._held -= size - 1
            self.decoding = [pair for pair in self.decoding if pair[1] is not victim]
            heapify(self.decoding)
            victim.prompt, victim.left = size, left
        heappush(self.preempted, victim)

    @override
    def running(self, now: float) -> int:
        """Return the running sequences."""
        return self.sequences

    @override
    def settle(self, now: float) -> None:
        if self.free_at <= now:
            self.finish()

    @override
    def busy_seconds(self, now: float) -> float:
        self.settle(now)
        if self._open is None:
            return self._settled_busy
        return self._settled_busy + self._open[3] - max(self.free_at - now, 0.0)

    @override
    def curve(self) -> CurveSums:
        """Return no sums: they count one-shot batches."""
        return CurveSums()

    @override
    def buckets(self) -> tuple[tuple[float, float], ...]:
        return ()

    def sample(self) -> GenerationSample:
        """Return the metrics of generation."""
        _, first_token, output_token = self._objectives
        return GenerationSample(
            epoch=self._epoch,
            sums=tuple(self._curve),
            warm_up=self._previous if self._epoch == 1 else None,
            generated_tokens=float(self.generated),
            cache_usage=self._held / self._model.cache_tokens,
            first_token_buckets=_buckets(first_token, self._first_tokens),
            output_token_buckets=_buckets(output_token, self._output_tokens),
        )


def _buckets(objective: float, counts: list[int]) -> tuple[tuple[float, float], ...]:
    whole = (inf, float(counts[1]))
    return (whole,) if objective == inf else ((objective, float(counts[0])), whole)
