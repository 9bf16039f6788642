"""SIGTERM: leave without losing a request (RUNTIME.md, Overload, drain, connections).

1. `/readyz` fails at once. Endpoints are removed late, so the pod goes on accepting for a while, and every
   answer says `Connection: close`.
2. Newcomers get 503 with Retry-After. What waits is served while it is predicted to finish by the
   deadline, else it gets the same 503 at once; the engine decides.
3. When nothing is left, idle keep-alive connections get a moment to speak once more, and be answered
   503 and `Connection: close` rather than a reset; then the listener closes.
"""

import asyncio
import logging
from collections.abc import Callable

from penstock_runtime.admission import DRAIN_RETRY_SECONDS
from penstock_runtime.health import Stage
from penstock_runtime.link.messages import Drain
from penstock_runtime.pod import Pod
from penstock_runtime.request import Failed
from penstock_runtime.server import ClientServer

log = logging.getLogger(__name__)

LINGER_SECONDS = 3.0
"""A connection that was silent for the accepting time and this is unlikely to speak as it is closed."""
ANSWER_SECONDS = 2.0
"""Within the deadline, kept for writing the last answers."""
LOOK_SECONDS = 0.02


async def drain(pod: Pod, clients: ClientServer) -> None:
    """Return when every request has its answer, at the latest at the drain deadline."""
    config = pod.config
    deadline = pod.now() + config.drain_deadline_seconds
    pod.health.stage = Stage.CLOSING
    log.info("told to stop: still accepting", extra={"seconds": config.accept_seconds})
    await _until(pod.died.is_set, pod, min(pod.now() + config.accept_seconds, deadline))
    if pod.died.is_set():
        return
    pod.health.stage = Stage.DRAINING
    last_work = max(pod.now(), deadline - ANSWER_SECONDS)
    pod.link.send(Drain(last_work, DRAIN_RETRY_SECONDS))
    await _until(lambda: pod.admission.empty() or pod.died.is_set(), pod, last_work)
    pod.admission.fail_all(Failed("this pod is stopping: try again", DRAIN_RETRY_SECONDS))
    await _until(lambda: clients.answering == 0, pod, deadline)
    await _until(
        lambda: clients.open_connections() == 0, pod, min(pod.now() + LINGER_SECONDS, deadline)
    )
    log.info("drained", extra={"open_connections": clients.open_connections()})


async def _until(done: Callable[[], bool], pod: Pod, deadline: float) -> None:
    """Look now and then: what ends a drain has many owners, and a drain happens once."""
    while not done() and pod.now() < deadline:  # noqa: ASYNC110
        await asyncio.sleep(LOOK_SECONDS)
