"""`seat`: the placement of the engine: thread or process, number of threads, CPUs (docs/design/runtime.md#topology)."""

from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Final

RENDEZVOUS_PORT: Final = 29500
"""The default of torch.distributed."""


class Placement(StrEnum):
    """Where an engine runs its model."""

    THREAD = "Thread"
    PROCESS = "Process"


@dataclass(frozen=True, slots=True)
class MachineProfile:
    """Resources of this container."""

    allowed: frozenset[int]
    """CPUs in its affinity mask (sched_getaffinity)."""
    online: int
    """CPUs of the whole machine."""
    quota: float | None
    """CPU limit of its control group, in CPUs; None: no limit."""
    cuda: bool
    """Whether the NVIDIA driver reports a device."""

    @property
    def cores(self) -> float:
        """CPU time per second that it can use, in CPUs."""
        return min(len(self.allowed), self.quota or len(self.allowed))


@dataclass(frozen=True, slots=True)
class EnginePlacement:
    """Placement of the engine, and the CPUs of both sides."""

    placement: Placement
    threads: int
    engine_cpus: frozenset[int]
    """Empty: not pinned."""
    http_cpus: frozenset[int]


@dataclass(frozen=True, slots=True)
class PodSeat:
    """The place of this pod among those that a model is split over (LeaderWorkerSet: one group)."""

    index: int = 0
    """0 is the leader, which has rank 0 and serves; the others are workers."""
    pods: int = 1
    leader: str = ""
    """Name or address of the leader."""
    port: int = RENDEZVOUS_PORT
    """Port at which the leader's HTTP process meets those of the workers."""

    def ranks_here(self, ranks: int) -> range:
        """Return the ranks of this pod, of `ranks` in all."""
        share = ranks // self.pods
        return range(self.index * share, (self.index + 1) * share)


@dataclass(frozen=True, slots=True)
class RankSeat:
    """The place of one process among those that a model is split over.

    The ranks of a stage are consecutive. Those of the last stage come first, so that rank 0, which samples, has the logits.
    """

    rank: int
    """Rank 0 schedules; the others follow."""
    tensor: int
    """Ranks that each stage is split over."""
    stages: int
    """Groups of consecutive layers."""
    folder: Path
    """Where the ranks of this pod find the others; empty at the start."""
    pods: int = 1
    """Pods that the ranks are divided over, in their order."""

    @property
    def ranks(self) -> int:
        """Return the number of ranks."""
        return self.tensor * self.stages

    @property
    def ranks_in_pod(self) -> int:
        """Return the number of ranks in each pod."""
        return self.ranks // self.pods

    @property
    def pod(self) -> int:
        """Return the index of the pod of this rank."""
        return self.rank // self.ranks_in_pod

    @property
    def device(self) -> int:
        """Return the number of this rank, and of its device, within its pod."""
        return self.rank % self.ranks_in_pod

    @property
    def part(self) -> int:
        """Return which part of its stage this rank has, from 0."""
        return self.rank % self.tensor

    @property
    def stage(self) -> int:
        """Return the stage of this rank; 0 has the embedding."""
        return self.stages - 1 - self.rank // self.tensor


def seat(machine: MachineProfile, wish: Placement | None = None) -> EnginePlacement:
    """Return the placement of the engine: a process, or a thread if the machine has no second core for a process.

    On one core, two processes cost 8 % of the time per token (docs/design/generation-step.md). In a process of its own the
    engine leaves one core to the HTTP side. CPUs are pinned only if the container has exclusive ones (the kubelet's
    static CPU policy); on shared CPUs the kernel schedules better.
    """
    by_rule = machine.cuda or machine.cores >= 2
    placement = wish or (Placement.PROCESS if by_rule else Placement.THREAD)
    cores = max(1, int(machine.cores))
    if placement is Placement.THREAD or cores == 1:
        return EnginePlacement(placement, cores, frozenset(), frozenset())
    own = len(machine.allowed) < machine.online and len(machine.allowed) <= machine.cores
    http = frozenset((min(machine.allowed),)) if own else frozenset[int]()
    return EnginePlacement(
        placement, cores - 1, machine.allowed - http if own else frozenset(), http
    )


def part_of(taken: EnginePlacement, index: int, parts: int) -> EnginePlacement:
    """Return the placement of one of `parts` engines that divide the threads and CPUs of `taken`."""
    cpus = frozenset(sorted(taken.engine_cpus)[index::parts])
    return replace(
        taken, threads=max(1, taken.threads // parts), engine_cpus=cpus or taken.engine_cpus
    )


def step_depth(machine: MachineProfile, wish: int | None = None) -> int:
    """Return how many steps of generation are planned ahead of the one that runs: 0 where nothing would hide it.

    A plan is made while a step runs only by a core that the step leaves free: another one, or the host's while
    the device computes. The engine's thread stays on the HTTP side's CPUs where those are pinned.
    """
    if wish is not None:
        return wish
    return 1 if machine.cuda or machine.cores >= 2 else 0
