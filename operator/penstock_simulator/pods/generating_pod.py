"""`GeneratingPod`: a pod that generates text, by the runtime's rule for the next step. Times are seconds of the trace."""

from bisect import bisect_left, bisect_right
from heapq import heappop
from math import inf

from typing_extensions import override

from penstock_operator.observed import GenerationSample
from penstock_simulator.pods.pod import PodLimits, SimulatedPod
from penstock_simulator.pods.step_time import Generation
from penstock_simulator.pods.stepping_engine import RunningSequence, SteppingEngine


class GeneratingPod(SimulatedPod):
    """One replica; a request waits until a place, tokens of a step and cache for its prompt are free, in order of arrival."""

    __slots__ = ("_lengths", "_steps")

    def __init__(  # noqa: PLR0913, PLR0917  a pod's own parts
        self,
        index: int,
        created: float,
        ready_at: float,
        engine: SteppingEngine,
        limits: PodLimits,
        generation: Generation,
    ) -> None:
        super().__init__(index, created, ready_at, engine, limits)
        self._steps = engine
        self._lengths = generation.lengths

    @override
    def waiting(self) -> float:
        return super().waiting() + len(self._steps.preempted)

    @override
    def in_flight(self, now: float) -> int:
        steps = self._steps
        return len(self.arrivals) - self.head + len(steps.preempted) + steps.sequences

    @override
    def unserved(self) -> bool:
        return super().unserved() or self._steps.sequences > 0 or bool(self._steps.preempted)

    @override
    def generation(self) -> GenerationSample:
        return self._steps.sample()

    @override
    def advance(self, until: float) -> None:
        """End every step that ends by `until`, and begin the one after it."""
        steps, end = self._steps, min(until, self.kill_at)
        while steps.free_at <= end:
            steps.finish()
            start = steps.free_at
            if not (steps.prefilling or steps.rows or steps.preempted):
                if self.head >= len(self.arrivals):
                    return
                start = max(start, self.arrivals[self.head])
                if start > end:
                    return
            self._admit(start)
            if steps.sequences:
                steps.begin(start, self.cap)

    def _admit(self, now: float) -> None:
        steps, arrivals = self._steps, self.arrivals
        if self.head >= len(arrivals) and not steps.preempted:
            return
        self._drop(now)
        unfed = sum(sequence.prompt - sequence.fed for sequence in steps.prefilling)
        free = steps.budget(self.cap)
        while steps.sequences < self.cap and free > unfed:
            again = steps.preempted[0].arrived if steps.preempted else inf
            fresh = arrivals[self.head] if self.head < len(arrivals) else inf
            if again < fresh:
                if steps.sequences and steps.preempted[0].prompt > steps.room():
                    return
                sequence = heappop(steps.preempted)
            elif fresh > now:
                return
            else:
                prompt, answer = self._lengths[fresh]
                if prompt > steps.room():
                    if steps.sequences:
                        return
                    self.rejected.append(fresh)
                    self.head += 1
                    continue
                sequence = RunningSequence(fresh, prompt, answer)
                self.head += 1
            steps.admit(sequence)
            free -= sequence.prompt

    def _drop(self, now: float) -> None:
        """Leave out requests whose clients have given up, and those over the depth of the queue."""
        arrivals, limits = self.arrivals, self._limits
        after = bisect_left(arrivals, now - limits.timeout_seconds, self.head)
        self.expired += after - self.head
        self.head = after
        if len(arrivals) - after > limits.max_queue_depth:
            self._reject(
                after, max(bisect_right(arrivals, now, after), after + limits.max_queue_depth)
            )
