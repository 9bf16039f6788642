"""`RankedLink`: a link to a generation engine that is split over several processes, the ranks of one model.

Each rank is the child of a `ProcessLink`, of this pod or of another pod of its group. The ranks end together: if one
dies or is silent, the others are killed.
"""

import asyncio
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from typing_extensions import override

from penstock_api.pod_contract import LimitsUpdate
from penstock_runtime.engine.continuous.limits import GenerationInfo
from penstock_runtime.engine.continuous.messages import Stepped, ToGeneration
from penstock_runtime.engine.continuous.ranks import (
    StepFollower,
    open_following_engine,
    open_leading_engine,
)
from penstock_runtime.engine.continuous.steps.interfaces import StepExecutor
from penstock_runtime.engine.continuous.steps.options import StepOptions
from penstock_runtime.engine.link.base import EngineLink, Heartbeat
from penstock_runtime.engine.link.group import LAST_WORDS_SECONDS
from penstock_runtime.engine.link.local_ranks import LocalRanks
from penstock_runtime.engine.link.pods.leader import WorkerPods
from penstock_runtime.engine.link.process.link import ProcessLink
from penstock_runtime.engine.messages import EngineDied
from penstock_runtime.engine.model import ModelLoadFailed, describe
from penstock_runtime.engine.placement import PodSeat, RankSeat

LAST_WORDS_OF_PODS_SECONDS: Final = 1.0
"""Time after the first death for which ranks on other pods may report what happened to them."""


class RankedLinkPhase(Enum):
    """Phase of the ranks of a model."""

    LOADING = auto()
    """A rank that is lost fails the load."""
    LOADED = auto()
    """A rank that is lost is the death of the engine."""
    ENDED = auto()
    """They were closed or killed."""


class RankedLink(EngineLink[ToGeneration, Stepped, GenerationInfo]):
    """Starts, watches and ends the ranks; the engine is rank 0."""

    def __init__(
        self,
        leader: ProcessLink[ToGeneration, Stepped, GenerationInfo],
        local: LocalRanks,
        workers: WorkerPods | None = None,
    ) -> None:
        """`local` are the ranks of this pod, with `leader`; `workers` are the other pods."""
        self._leader = leader
        self._local = local
        self._workers = workers
        self._words: list[str] = []
        """What is known of the ranks that were lost, in order of time."""
        self._lost = asyncio.Event()
        """Set once there are such words."""
        self._phase = RankedLinkPhase.LOADING
        self._deliver: Callable[[Stepped | EngineDied], None]

    @override
    async def start(self, deliver: Callable[[Stepped | EngineDied], None]) -> GenerationInfo:
        self._deliver = deliver
        try:
            if self._workers is not None:
                await self._workers.join(self._lose)
            info = await self._load()
        except asyncio.CancelledError:
            self._kill_local()
            if self._workers is not None:
                self._workers.dismiss()
            raise
        except BaseException as error:
            self._end_all(str(error) or describe(error))
            raise
        self._phase = RankedLinkPhase.LOADED
        return info

    async def _load(self) -> GenerationInfo:
        """Start the ranks of all pods.

        Raises:
            ModelLoadFailed: with the words of all ranks that were lost or failed within a moment.
        """
        loads: list[asyncio.Future[Any]] = [
            asyncio.ensure_future(self._local.start(self._receive, self._lose))
        ]
        if self._workers is not None:
            loads.append(asyncio.ensure_future(self._workers.load(self._local.folder)))
        ending = asyncio.ensure_future(asyncio.wait(loads, return_when=asyncio.FIRST_EXCEPTION))
        losing = asyncio.ensure_future(self._lost.wait())
        try:
            await asyncio.wait({ending, losing}, return_when=asyncio.FIRST_COMPLETED)
            if self._words or any(load.done() and load.exception() for load in loads):
                # a load that fails waits for last words itself
                await asyncio.wait(loads, timeout=LAST_WORDS_SECONDS + self._last_words_seconds())
                raise self._failure(loads)
        finally:
            for task in (*loads, ending, losing):
                task.cancel()
        info: GenerationInfo = loads[0].result()[0]
        return info

    def _failure(self, loads: Sequence[asyncio.Future[Any]]) -> ModelLoadFailed:
        """Return the words of the ranks that were lost, then those of the loads that failed."""
        errors = [load.exception() for load in loads if load.done()]
        others = [str(error) for error in errors if error is not None]
        return ModelLoadFailed("; ".join(dict.fromkeys((*self._words, *others))))

    @override
    def send(self, message: ToGeneration) -> None:
        self._leader.send(message)

    @override
    def set_more_coming_hint(self, more_coming: Callable[[], bool]) -> None:
        """Ignore the hint, as a `ProcessLink` does."""

    @override
    def heartbeat(self) -> Heartbeat:
        return self._leader.heartbeat()

    @override
    def kill(self) -> None:
        self._end_all("; ".join(self._words) or "the leader has ended its engine, which was stuck")

    def _end_all(self, words: str) -> None:
        """Kill the ranks of this pod, and report the reason to the other pods."""
        self._kill_local()
        if self._workers is not None:
            self._workers.end(words)

    def _kill_local(self) -> None:
        self._phase = RankedLinkPhase.ENDED
        self._local.kill()

    @override
    async def close(self) -> None:
        self._phase = RankedLinkPhase.ENDED
        if self._workers is not None:
            await self._workers.close()
        await self._local.close()

    def _receive(self, message: Stepped) -> None:
        if self._phase is not RankedLinkPhase.ENDED:
            self._deliver(message)

    def _lose(self, words: str) -> None:
        """Record the end of a rank, and end the others after the first; those that load are ended by `start`."""
        if self._phase is RankedLinkPhase.ENDED:
            return
        self._words.append(words)
        self._lost.set()
        if len(self._words) == 1 and self._phase is RankedLinkPhase.LOADED:
            asyncio.get_running_loop().call_later(self._last_words_seconds(), self._end)

    def _last_words_seconds(self) -> float:
        return LAST_WORDS_SECONDS if self._workers is None else LAST_WORDS_OF_PODS_SECONDS

    def _end(self) -> None:
        if self._phase is RankedLinkPhase.LOADED:
            self.kill()
            self._deliver(EngineDied("; ".join(self._words)))


class RankLoads(NamedTuple):
    """Load a rank in its process; both are picklable."""

    lead: Callable[[RankSeat], StepExecutor]
    follow: Callable[[RankSeat], StepFollower]


@dataclass(frozen=True, slots=True)
class LeadingPod:
    """The pod of rank 0, and the others."""

    group: PodSeat
    label: str
    """Name of this pod in messages."""
    workers: WorkerPods | None
    """None: there are no others."""


def ranked_link(
    loads: RankLoads,
    options: StepOptions,
    limits: LimitsUpdate,
    pod: LeadingPod,
    *,
    depth: int = 0,
) -> RankedLink:
    """Return a link to an engine of several ranks."""
    leader, *others = own_seats(options, pod.group)
    opener = partial(open_leading_engine, partial(loads.lead, leader), limits, depth)
    first: ProcessLink[ToGeneration, Stepped, GenerationInfo] = ProcessLink(opener)
    links: list[ProcessLink[Any, Any, Any]] = [first, *following_links(loads.follow, others)]
    local = LocalRanks(links, partial(named, [leader, *others], pod.label), leader.folder)
    return RankedLink(first, local, pod.workers)


def own_seats(options: StepOptions, group: PodSeat) -> list[RankSeat]:
    """Return the seats of the ranks of this pod, with a new folder to meet in."""
    folder = Path(tempfile.mkdtemp(prefix="penstock-ranks-"))
    return [
        RankSeat(rank, options.tensor_parallel, options.pipeline_parallel, folder, group.pods)
        for rank in group.ranks_here(options.ranks)
    ]


def following_links(
    follow: Callable[[RankSeat], StepFollower], seats: Sequence[RankSeat]
) -> list[ProcessLink[Any, None, None]]:
    """Return a link to each rank that follows."""
    return [ProcessLink(partial(open_following_engine, partial(follow, seat))) for seat in seats]


def named(seats: Sequence[RankSeat], pod: str, index: int, text: str) -> str:
    """Return what is known of the rank of `seats[index]`, with its pod where there are several."""
    seat = seats[index]
    where = f" on {pod}" if seat.pods > 1 else ""
    return f"rank {seat.rank} of {seat.ranks}{where}: {text}"
