"""Entry point of a pod: listen, load, serve, and drain on SIGTERM. Wiring only."""

import asyncio
import ctypes
import logging
import os
import sys
from collections.abc import Coroutine
from contextlib import AsyncExitStack, suppress
from typing import Any

import uvloop

from penstock_api.api_keys import ApiKeysUnusable
from penstock_api.certificates import CertificateUnusable
from penstock_api.pod_contract import MAX_LOAD_SECONDS
from penstock_api.stopping import on_stop
from penstock_runtime.assembly import make_pod
from penstock_runtime.config import RuntimeConfig, read_config
from penstock_runtime.drain import await_probe, drain
from penstock_runtime.engine.crashes import report_crashes
from penstock_runtime.engine.link.base import ModelLoadFailed
from penstock_runtime.engine.machine import spare_the_collector
from penstock_runtime.engine.model import describe
from penstock_runtime.errors import ConfigError
from penstock_runtime.http import descriptors
from penstock_runtime.http.aiohttp_seam import log_broken_http_in_one_line
from penstock_runtime.http.server import ClientServer, ClusterServer
from penstock_runtime.http.tls import certificate_of, context_of, watch_certificate
from penstock_runtime.logs import configure, write_termination_log
from penstock_runtime.serving.health import Stage
from penstock_runtime.serving.limits import first_limits, watch_limits
from penstock_runtime.serving.pod import Pod
from penstock_runtime.telemetry.gpu import DutyMeter, Nvml
from penstock_runtime.telemetry.metrics import Exposition

log = logging.getLogger(__name__)

LAST_ANSWERS_SECONDS = 1.0
"""Time to send error responses after the engine has died, and to end a load that is stopped."""


def main() -> None:
    """Run until stopped; exit with 0 after a drain, with 1 if the model does not load or the engine dies."""
    try:
        config = read_config(os.environ)
    except ConfigError as error:
        sys.exit(f"penstock-runtime: {error}")
    report_crashes()
    configure(config.log.format, config.log.level)
    log_broken_http_in_one_line()
    descriptors.raise_limit()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        code = runner.run(run(config))
        logging.shutdown()
        # Before the end of the block, which would wait for a loading model or a hung driver call.
        os._exit(code)


async def run(config: RuntimeConfig) -> int:
    """Serve until SIGTERM, SIGINT or the engine's death; return the exit code."""
    stop = asyncio.Event()
    on_stop(asyncio.get_running_loop().add_signal_handler, stop.set)
    if config.group.index > 0:
        from penstock_runtime.worker_pod import run_worker  # noqa: PLC0415 - other pods do without

        return await run_worker(config, stop)
    first = await asyncio.to_thread(first_limits, config.files.limits_file)
    pod = make_pod(config, first)
    exposition = Exposition(pod)
    try:
        certificate = certificate_of(config)
        pod.callers.read_keys()
    except (CertificateUnusable, ApiKeysUnusable) as error:
        write_termination_log(config.files.termination_log, type(error).__name__, str(error))
        return 1
    tls = context_of(certificate)
    clients, cluster = ClientServer(pod, exposition, tls), ClusterServer(pod, exposition, tls)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(cluster.stop)
        cluster_port = await cluster.start()
        stack.push_async_callback(clients.stop)
        client_port = await clients.start()
        log.info("listening", extra={"client_port": client_port, "cluster_port": cluster_port})
        _in_background(stack, watch_certificate(certificate))
        if not await _loaded(pod, stop):
            return 0 if stop.is_set() else 1
        spare_the_collector()
        trim_heap()
        meter = DutyMeter(pod.busy_seconds, pod.now, Nvml().read if pod.model_on_cuda() else None)
        exposition.collector.meter = meter
        _in_background(stack, meter.run())
        _in_background(stack, watch_limits(config.files.limits_file, pod.live))
        _in_background(stack, pod.callers.watch())
        _in_background(stack, pod.watch_engine())
        return await _serve(pod, clients, stop)


async def _loaded(pod: Pod, stop: asyncio.Event) -> bool:
    """Return whether the model is warm; False if the pod is stopped before, or the model does not load.

    A pod that is warm may have requests already, so it drains even if it is stopped in the same moment.
    """
    loading = asyncio.create_task(pod.load())
    stopping = asyncio.create_task(stop.wait())
    done, _ = await asyncio.wait(
        {loading, stopping}, timeout=MAX_LOAD_SECONDS, return_when=asyncio.FIRST_COMPLETED
    )
    if stop.is_set() and not loading.done():
        pod.health.stage = Stage.DRAINING
        loading.cancel()
        await asyncio.wait({loading}, timeout=LAST_ANSWERS_SECONDS)
        return False
    stopping.cancel()
    try:
        if not done:
            raise ModelLoadFailed(
                f"the model was not loaded within {MAX_LOAD_SECONDS} s: use a faster source or a cache"
            )
        await loading
    except ModelLoadFailed as error:
        reason, words = error.reason, str(error)
    except Exception as error:  # the last line of defence: the pool's condition needs a cause
        log.exception("defect while loading")
        reason, words = ModelLoadFailed.reason, describe(error)
    else:
        return True
    write_termination_log(pod.config.files.termination_log, reason, words)
    return False


async def _serve(pod: Pod, clients: ClientServer, stop: asyncio.Event) -> int:
    ended = [asyncio.create_task(stop.wait()), asyncio.create_task(pod.died.wait())]
    await asyncio.wait(ended, return_when=asyncio.FIRST_COMPLETED)
    for task in ended:
        task.cancel()
    if not pod.died.is_set():
        await drain(pod, clients)
    if pod.died.is_set():
        await asyncio.sleep(LAST_ANSWERS_SECONDS)
        write_termination_log(
            pod.config.files.termination_log, "EngineDied", pod.health.death or ""
        )
        return 1
    await pod.close()
    await await_probe(pod)
    return 0


def trim_heap() -> None:
    """Return memory that loading freed to the system: some 11 MiB that glibc would keep."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def _in_background(stack: AsyncExitStack, work: Coroutine[Any, Any, None]) -> None:
    task = asyncio.create_task(work)
    task.add_done_callback(_log_failure)
    stack.callback(task.cancel)


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        log.error("background task failed", exc_info=task.exception())
