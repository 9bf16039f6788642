"""Drain: shut down after SIGTERM without losing a request (docs/design/runtime.md#drain).

1. `/readyz` fails at once, except for the kubelet: a deleted pod leaves the endpoints by its deletion, and a failed probe
   would be a Warning Event. Endpoints are removed late, so the pod accepts requests for some seconds more; every answer
   has `Connection: close`.
2. New requests get 503 with Retry-After. Waiting requests are served if the engine predicts that they finish by the
   deadline; the others get the same 503 at once. Generations that have not ended by the deadline are handed over to
   other pods, and their tokens are relayed for `relay_seconds` at most (docs/design/handover.md).
3. Clients that still connect get 503 with `Connection: close` rather than a reset. The listener closes when no request
   is left, clients have read their answers, and no connection was active for a moment.
4. The process ends right after a readiness probe: the next one comes when the container is gone, and finds no closed
   port, which would be a Warning Event as well.
"""

import asyncio
import logging
from collections.abc import Callable

from penstock_runtime.config import DrainConfig
from penstock_runtime.engine.messages import Drain
from penstock_runtime.http.server import ClientServer
from penstock_runtime.request import Failed
from penstock_runtime.serving.health import Stage
from penstock_runtime.serving.pod import Pod

log = logging.getLogger(__name__)

DRAIN_RETRY_SECONDS = 1.0
"""`Retry-After` of a draining pod: another pod serves the request at once."""
QUIET_SECONDS = 1.0
"""Time for clients of closed connections to connect once more, until the endpoint is removed."""
IDLE_SECONDS = 3.0
"""Idle time after which a connection is unlikely to send a request just as it is closed."""
ANSWER_SECONDS = 2.0
"""Part of the deadline that is reserved for writing the last answers."""
PROBE_SECONDS = 2.5
"""Longest wait for the next readiness probe; their period is 2 s."""
INTERRUPT_SECONDS = 1.0
"""Time for the engine to interrupt its requests at the deadline; then they fail."""
HAND_OVER_SECONDS = 10.0
"""The same where other pods continue them: a step ends first, which on a busy machine takes seconds."""
LOOK_SECONDS = 0.02


async def drain(pod: Pod, clients: ClientServer) -> None:
    """Return when every request has its answer, at the latest at the drain deadline, or `relay_seconds` after it.

    An engine that does not interrupt its requests in time delays both by `HAND_OVER_SECONDS` at most, and their answers.
    """
    config = pod.config
    deadline = pod.now() + config.drain.deadline_seconds
    pod.health.stage = Stage.CLOSING
    log.info("stopping: still accepting", extra={"seconds": config.drain.accept_seconds})
    await _until(pod.died.is_set, pod, min(pod.now() + config.drain.accept_seconds, deadline))
    if pod.died.is_set():
        return
    pod.health.stage = Stage.DRAINING
    last_work = max(pod.now(), deadline - ANSWER_SECONDS)
    pod.link.send(Drain(last_work, DRAIN_RETRY_SECONDS))
    interrupted_by = last_work + _interrupt_seconds(config.drain)
    await _until(lambda: pod.admission.empty() or pod.died.is_set(), pod, interrupted_by)
    terminating = Failed("this pod is terminating: retry", DRAIN_RETRY_SECONDS)
    pod.admission.fail_all(terminating)
    written_by = max(deadline, pod.now() + ANSWER_SECONDS)
    await _until(clients.answered, pod, written_by)
    if pod.admission.elsewhere():
        deadline = await _relayed(pod, deadline + config.drain.relay_seconds, terminating)
    await _until(clients.answered, pod, deadline)
    await _until(lambda: _left_alone(pod, clients), pod, deadline)
    log.info("drained", extra={"open_connections": clients.open_connections()})


def _interrupt_seconds(config: DrainConfig) -> float:
    """Return how long the engine may take to interrupt its requests."""
    if config.peer_url is None:
        return INTERRUPT_SECONDS
    return max(INTERRUPT_SECONDS, min(HAND_OVER_SECONDS, config.relay_seconds))


async def _relayed(pod: Pod, deadline: float, terminating: Failed) -> float:
    """Wait for the generations that other pods continue; return the time until which last answers may be written."""
    log.info("relaying", extra={"generations": pod.admission.elsewhere()})
    await _until(lambda: not pod.admission.elsewhere(), pod, deadline)
    pod.admission.fail_elsewhere(terminating)
    return pod.now() + ANSWER_SECONDS


async def await_probe(pod: Pod) -> None:
    """Wait for the kubelet's next readiness probe; a pod that no kubelet probes waits for none."""
    last = pod.health.probed_at
    if last is not None:
        until = pod.now() + PROBE_SECONDS
        await _until(lambda: pod.health.probed_at != last, pod, until)


def _left_alone(pod: Pod, clients: ClientServer) -> bool:
    quiet = QUIET_SECONDS if clients.open_connections() == 0 else IDLE_SECONDS
    return clients.answered() and pod.now() - clients.traffic.last_request_at >= quiet


async def _until(done: Callable[[], bool], pod: Pod, deadline: float) -> None:
    """Poll `done`: its conditions have many owners, and a pod drains once."""
    while not done() and pod.now() < deadline:  # noqa: ASYNC110
        await asyncio.sleep(LOOK_SECONDS)
