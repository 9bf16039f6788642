"""From the environment's word to a pod: which engine, behind which link, serves which task."""

from penstock_api.limits import LimitsUpdate
from penstock_api.types.model import Task
from penstock_runtime.config import Config
from penstock_runtime.loading import engine_link
from penstock_runtime.serving.pod import Pod


def make_pod(config: Config, first: LimitsUpdate) -> Pod:
    """Return the pod that serves `config.model`; nothing is loaded yet."""
    if config.model.task is Task.TEXT_GENERATION:
        from penstock_runtime.serving.generation.assembly import generation_pod  # noqa: PLC0415 - 13 MiB that other pods do without

        return generation_pod(config, first)
    return Pod(config, engine_link(config, first), first)
