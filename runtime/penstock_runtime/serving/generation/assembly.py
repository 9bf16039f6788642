"""`generation_pod`: a generating pod, with its engine in a thread or a process."""

from functools import partial

from penstock_api.pod_contract import LimitsUpdate
from penstock_runtime.config import RuntimeConfig
from penstock_runtime.engine.link.generation import (
    GenerationLink,
    generation_process_link,
    generation_thread_link,
)
from penstock_runtime.engine.link.ranks import RankLoads, ranked_link
from penstock_runtime.engine.machine import keep_to, this_machine
from penstock_runtime.engine.placement import (
    Placement,
    seat,
    step_depth,
)
from penstock_runtime.loading import folder_of, follow_ranks, lead_ranks, open_generation
from penstock_runtime.serving.generation.client import GenerationPod, make_generation_pod
from penstock_runtime.serving.generation.pods import leading_pod, shared_threads


def generation_pod(config: RuntimeConfig, first: LimitsUpdate) -> GenerationPod:
    """Place the engine by the container's cores and devices; may pin this process."""
    folder = folder_of(config)
    machine = this_machine()
    taken, depth = (
        seat(machine, config.engine.placement),
        step_depth(machine, config.generation.step.depth),
    )
    load = partial(open_generation, config, folder, taken)
    link: GenerationLink
    options = config.generation.step
    if options.ranks > 1:
        keep_to(taken.http_cpus)
        shared = shared_threads(config, taken)
        loads = RankLoads(
            partial(lead_ranks, config, folder, shared),
            partial(follow_ranks, config, folder, shared),
        )
        link = ranked_link(loads, options, first, leading_pod(config), depth=depth)
    elif taken.placement is Placement.THREAD:
        link = generation_thread_link(load, first, depth=depth)
    else:
        keep_to(taken.http_cpus)
        link = generation_process_link(load, first, depth=depth)
    return make_generation_pod(config, link, folder, first)
