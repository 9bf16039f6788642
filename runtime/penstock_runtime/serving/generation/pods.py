"""The pods of a model that is split over several: what they must share, and their parts of the link."""

import os
import signal
from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from importlib.metadata import version

from penstock_api import names
from penstock_runtime.config import RuntimeConfig
from penstock_runtime.engine.link.local_ranks import LocalRanks
from penstock_runtime.engine.link.pods.leader import WorkerPods
from penstock_runtime.engine.link.pods.messages import pod_label
from penstock_runtime.engine.link.pods.worker import WorkerRanks
from penstock_runtime.engine.link.ranks import LeadingPod, following_links, named, own_seats
from penstock_runtime.engine.machine import keep_to, this_machine
from penstock_runtime.engine.model import describe
from penstock_runtime.engine.placement import EnginePlacement, seat
from penstock_runtime.loading import folder_of, follow_ranks
from penstock_runtime.models.decoders.revision import revision

OWN_SETTINGS = frozenset(("block_tokens", "graphs", "depth", "folders"))
"""Attributes of `StepOptions` that are constant, or concern rank 0 only."""


def leading_pod(config: RuntimeConfig) -> LeadingPod:
    """Return the pod that serves, with its connections to the other pods.

    A worker that receives SIGTERM stops this pod in the same way, so that it drains.
    """
    group, label = config.group, pod_label(config.group.index, config.pod.name)
    if group.pods == 1:
        return LeadingPod(group, label, None)
    stop = partial(os.kill, os.getpid(), signal.SIGTERM)
    workers = WorkerPods(group, config.http.host, partial(shared_settings, config), stop)
    return LeadingPod(group, label, workers)


def worker_ranks(config: RuntimeConfig, loaded: Callable[[], None]) -> WorkerRanks:
    """Return the ranks of a worker pod; may pin this process."""
    taken = seat(this_machine(), config.engine.placement)
    keep_to(taken.http_cpus)
    seats = own_seats(config.generation.step, config.group)
    follow = partial(follow_ranks, config, folder_of(config), shared_threads(config, taken))
    pod = pod_label(config.group.index, config.pod.name)
    local = LocalRanks(following_links(follow, seats), partial(named, seats, pod), seats[0].folder)
    return WorkerRanks(
        config.group, config.pod.name, partial(shared_settings, config), local, loaded
    )


def shared_threads(config: RuntimeConfig, taken: EnginePlacement) -> EnginePlacement:
    """Return the placement of one of the ranks of this pod, which divide its threads."""
    ranks = len(config.group.ranks_here(config.generation.step.ranks))
    return replace(taken, threads=max(1, taken.threads // ranks))


def shared_settings(config: RuntimeConfig) -> dict[str, str]:
    """Return what all pods of a group must have in common, by the name that messages use; reads the model's files."""
    try:
        files = revision(folder_of(config))
    except (OSError, ValueError) as error:
        files = f"unreadable ({describe(error)})"
    options = config.generation.step
    return {
        names.ENV_MODEL: config.model.model_dump_json(exclude_none=True),
        "the model's files": files,
        "the version of torch": version("torch"),
        **{
            f"PENSTOCK_{field.name.upper()}": str(getattr(options, field.name))
            for field in fields(options)
            if field.name not in OWN_SETTINGS
        },
    }
