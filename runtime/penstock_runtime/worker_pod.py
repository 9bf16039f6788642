"""`run_worker`: a worker pod of a model that is split over several pods: its ranks, probes, and nothing else."""

import asyncio
import logging
from contextlib import AsyncExitStack

from penstock_api.certificates import CertificateUnusable
from penstock_runtime.config import RuntimeConfig
from penstock_runtime.engine.link.base import ModelLoadFailed
from penstock_runtime.engine.link.pods.worker import GroupLost
from penstock_runtime.engine.model import describe
from penstock_runtime.http.tls import certificate_of, context_of, watch_certificate
from penstock_runtime.http.worker_server import WorkerServer
from penstock_runtime.logs import write_termination_log
from penstock_runtime.serving.generation.pods import worker_ranks
from penstock_runtime.serving.health import Health, Stage
from penstock_runtime.sources.fetch import fetched
from penstock_runtime.sources.progress import DownloadProgress

log = logging.getLogger(__name__)

END_SECONDS = 10.0
"""Time for the leader to end after the last answer that it relays; the grace period has 15 s more than the drain."""


async def run_worker(config: RuntimeConfig, stop: asyncio.Event) -> int:
    """Follow the leader until the group ends or this pod is stopped; return the exit code."""
    pod = FollowingPod(config)
    try:
        certificate = certificate_of(config)
    except CertificateUnusable as error:
        write_termination_log(config.files.termination_log, "CertificateUnusable", str(error))
        return 1
    server = WorkerServer(
        config.http, config.pod.name, pod.health, pod.status, context_of(certificate)
    )
    async with AsyncExitStack() as stack:
        stack.push_async_callback(server.stop)
        port = await server.start()
        log.info("listening", extra={"client_port": None, "cluster_port": port})
        watching = asyncio.create_task(watch_certificate(certificate))
        stack.callback(watching.cancel)
        return await pod.run(stop)


class FollowingPod:
    """Owns the health of a worker pod."""

    def __init__(self, config: RuntimeConfig) -> None:
        self.health = Health()
        self._config = config
        self._ranks = worker_ranks(config, self._loaded)

    def status(self) -> str:
        """Return what the pod waits for."""
        return "its ranks follow" if self.health.ready else self._ranks.status

    async def run(self, stop: asyncio.Event) -> int:
        """Fetch the model, join the leader and follow it; return the exit code."""
        drain = self._config.drain
        try:
            if not await self._fetched_before(stop):
                return 0
            seconds = drain.deadline_seconds + drain.relay_seconds + END_SECONDS
            await self._ranks.run(stop, seconds)
        except ModelLoadFailed as error:
            reason, words = error.reason, str(error)
        except GroupLost as error:
            reason, words = "EngineDied", str(error)
        except Exception as error:  # the last line of defence: a worker that is lost must not stay
            log.exception("defect while following")
            reason, words = "EngineDied", describe(error)
        else:
            return 0
        self.health.die(words)
        write_termination_log(self._config.files.termination_log, reason, words)
        return 1

    async def _fetched_before(self, stop: asyncio.Event) -> bool:
        """Fetch the model; return False as soon as the pod is stopped.

        Raises:
            ModelLoadFailed: it cannot be fetched.
        """
        fetching = asyncio.ensure_future(fetched(self._config, DownloadProgress()))
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait({fetching, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if fetching.done():
                fetching.result()
            return fetching.done()
        finally:
            fetching.cancel()
            stopping.cancel()

    def _loaded(self) -> None:
        self.health.stage = Stage.SERVING
