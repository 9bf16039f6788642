"""`pod_group`: the variables that the LeaderWorkerSet controller sets in each container of a group of pods.

Their names are those of LeaderWorkerSet (`api/leaderworkerset/v1`, "Environment variables").
"""

from collections.abc import Mapping
from typing import Any, Final

from penstock_api import names
from penstock_api.types.model import ModelSpec, Task
from penstock_runtime.engine.placement import PodSeat
from penstock_runtime.errors import ConfigError

ENV_LEADER_ADDRESS: Final = "LWS_LEADER_ADDRESS"
ENV_GROUP_SIZE: Final = "LWS_GROUP_SIZE"
ENV_WORKER_INDEX: Final = "LWS_WORKER_INDEX"
MAX_PODS: Final = 64


def pod_group(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the attributes of `PodSeat` in `environ`; none outside a group and in a group of one pod.

    Raises:
        ConfigError: one variable is set without the others, or is out of range.
    """
    if ENV_GROUP_SIZE not in environ:
        return {}
    pods = _integer(environ, ENV_GROUP_SIZE, 1, MAX_PODS)
    if pods == 1:
        return {}
    leader = environ.get(ENV_LEADER_ADDRESS, "")
    if not leader:
        raise ConfigError(
            f"{ENV_GROUP_SIZE}={pods}, but {ENV_LEADER_ADDRESS} is not set: set it to the name of the leader"
        )
    return {
        "index": _integer(environ, ENV_WORKER_INDEX, 0, pods - 1),
        "pods": pods,
        "leader": leader,
    }


def check_group(group: PodSeat, model: ModelSpec, ranks: int) -> None:
    """Check that `ranks` can be divided over the pods of `group`.

    Raises:
        ConfigError: they cannot, or the model generates no text.
    """
    if group.pods == 1:
        return
    if model.task is not Task.TEXT_GENERATION:
        raise ConfigError(
            f"{ENV_GROUP_SIZE}={group.pods} is for models that generate text: set spec.parallelism.nodes to 1"
        )
    if ranks % group.pods:
        raise ConfigError(
            f"{ranks} ranks ({names.ENV_TENSOR_PARALLEL} times {names.ENV_PIPELINE_PARALLEL}) cannot be divided over"
            f" {group.pods} pods ({ENV_GROUP_SIZE}): the number of pods must divide that of ranks"
        )


def _integer(environ: Mapping[str, str], name: str, minimum: int, maximum: int) -> int:
    text = environ.get(name, "")
    number = int(text) if text.isascii() and text.isdigit() else -1
    if not minimum <= number <= maximum:
        raise ConfigError(f"{name}={text!r}: must be an integer from {minimum} to {maximum}")
    return number
