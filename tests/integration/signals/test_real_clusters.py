"""A real Prometheus with TLS, a password, and a DCGM exporter among its targets."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from penstock_operator.decide.spec.prometheus import KeyOf, MetricsServer
from penstock_operator.net.http import CallFailed, new_session
from penstock_operator.observe.signals.credentials import CredentialsCache
from penstock_operator.observe.signals.shared_queries import SharedQueries
from penstock_operator.observe.signals.sources import PoolPods, observe_signals
from penstock_operator.observed import PoolSignals, SignalSource, UtilizationSource
from tests.integration.signals.test_real_prometheus import until
from tests.support.kube.tls_server import certificate
from tests.unit.operator.observe.signals.exporter import (
    Figures,
    free_address,
    metrics_route,
    pod_object,
    serving,
)
from tests.unit.operator.observe.signals.test_credentials import Objects, encoded

pytestmark = pytest.mark.integration

HASH = "$2b$12$hNf2lSsxfm0.i4a.1kVpSOVyBCfIB51VRjgBUyv6kdnyTlgWj81Ay"
"""bcrypt of `test`, from Prometheus' own documentation."""
CONFIG = """
global: {{scrape_interval: 1s, scrape_timeout: 1s}}
scrape_configs:
- job_name: pools
  static_configs:
  - targets: ['{pod}:8001']
    labels: {{namespace: team, pool: chat}}
- job_name: dcgm
  honor_labels: {honor}
  static_configs:
  - targets: ['{exporter}:9400']
    labels: {{namespace: monitoring, pod: dcgm-exporter-x}}
"""
WEB = """
tls_server_config: {{cert_file: {folder}/server.crt, key_file: {folder}/server.key}}
basic_auth_users: {{reader: {hash}}}
"""


@dataclass(frozen=True)
class Scene:
    """URL and certificate of a Prometheus, and the address of the pod that it scrapes."""

    url: str
    ca: str
    pod_ip: str


def device(**labels: str) -> str:
    return ",".join(f'{key}="{text}"' for key, text in labels.items())


def exporter_route(lines: dict[str, str]) -> web.RouteDef:
    """Return `/metrics` of a fake DCGM exporter: series with labels -> value."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response(text="".join(f"{key} {value}\n" for key, value in lines.items()))

    return web.get("/metrics", answer)


@asynccontextmanager
async def scene(
    folder: Path, lines: dict[str, str] | None = None, *, secure: bool, honor: bool = True
) -> AsyncIterator[Scene]:
    """Run a pod, an exporter, and the Prometheus that scrapes both."""
    async with AsyncExitStack() as stack:
        figures = Figures("uid-1", duty={"Nvml": 0.25})
        pod = await stack.enter_async_context(serving(metrics_route(figures)))
        exporter = await stack.enter_async_context(serving(exporter_route(lines or {}), port=9400))
        address = free_address()
        ca = certificate(folder, address)
        (folder / "prometheus.yml").write_text(
            CONFIG.format(pod=pod, exporter=exporter, honor=str(honor).lower())
        )
        (folder / "web.yml").write_text(WEB.format(folder=folder, hash=HASH))
        secured = [f"--web.config.file={folder / 'web.yml'}"] if secure else []
        process = await asyncio.create_subprocess_exec(
            "prometheus",
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address={address}:9090",
            "--log.level=error",
            *secured,
        )
        try:
            yield Scene(f"http{'s' if secure else ''}://{address}:9090", ca, pod)
        finally:
            process.kill()
            await process.wait()


def accesses(**objects: Any) -> CredentialsCache:
    return CredentialsCache(Objects(**objects), "penstock-system")  # type: ignore[arg-type]


async def signals(
    where: Scene, server: MetricsServer, credentials: CredentialsCache
) -> PoolSignals:
    pool = PoolPods("pool", "team", (pod_object("uid-1", where.pod_ip),), server)
    async with new_session() as session:
        return (await observe_signals(session, [pool], time.time(), SharedQueries(credentials.of)))[
            "pool"
        ]


async def test_a_server_with_tls_and_a_password_is_read_and_errors_are_reported(
    tmp_path: Path,
) -> None:
    async with scene(tmp_path, secure=True) as where:
        right = encoded({"username": "reader", "password": "test"})
        credentials = accesses(ca={"ca.crt": where.ca}, reader=right)
        ca = KeyOf("ca", "ca.crt")
        server = MetricsServer(where.url, ca, "reader", (("X-Scope-OrgID", "team"),))
        observed = await until(
            lambda: signals(where, server, credentials),
            lambda candidate: candidate.source is SignalSource.PROMETHEUS,
            seconds=90,
        )
        assert observed.problem == ""
        assert observed.samples[-1].waiting == 3.0

        async def problem(server: MetricsServer, **objects: Any) -> str:
            observed = await signals(where, server, accesses(**objects))
            assert observed.source is SignalSource.PODS, "the pods are read instead"
            return observed.problem

        text = await problem(MetricsServer(where.url, None, "reader"), reader=right)
        assert "not signed by a trusted CA" in text
        wrong = encoded({"username": "reader", "password": "other"})
        text = await problem(server, ca={"ca.crt": where.ca}, reader=wrong)
        assert "responded 401: check the credentials" in text
        assert "other" not in text
        text = await problem(server, ca={"ca.crt": where.ca})
        assert "Secret reader in namespace penstock-system cannot be read (Forbidden)" in text


OURS = {"namespace": "team", "pod": "chat-uid-1", "container": "runtime"}
WHOLE = device(gpu="0", UUID="GPU-a", **OURS)
OTHER = device(gpu="1", UUID="GPU-b", namespace="team", pod="another", container="runtime")
MIG = [
    device(gpu="0", UUID="GPU-a", GPU_I_PROFILE="2g.20gb", GPU_I_ID=number, **OURS)
    for number in "34"
]


@pytest.mark.parametrize("honor", [True, False], ids=["own-labels", "exported-labels"])
@pytest.mark.parametrize(
    ("lines", "share"),
    [
        ({f"DCGM_FI_DEV_GPU_UTIL{{{WHOLE}}}": "75", f"DCGM_FI_DEV_GPU_UTIL{{{OTHER}}}": "10"}, 0.75),
        ({f"DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{labels}}}": value for labels, value in zip(MIG, ("0.4", "0.6"), strict=True)}, 0.5),
    ],
    ids=["whole", "mig"],
)  # fmt: skip
async def test_the_utilization_of_a_pods_devices_comes_from_the_dcgm_exporter(
    tmp_path: Path, lines: dict[str, str], share: float, honor: bool
) -> None:
    async with scene(tmp_path, lines, secure=False, honor=honor) as where:
        server = MetricsServer(where.url)
        observed = await until(
            lambda: signals(where, server, accesses()),
            lambda candidate: (
                candidate.source is SignalSource.PROMETHEUS
                and candidate.samples[-1].duty_source is UtilizationSource.DCGM
            ),
            seconds=90,
        )
        assert observed.samples[-1].gpu_utilization == pytest.approx(share)


async def test_without_an_exporter_the_utilization_comes_from_the_pod(tmp_path: Path) -> None:
    async with scene(tmp_path, secure=False) as where:
        observed = await until(
            lambda: signals(where, MetricsServer(where.url), accesses()),
            lambda candidate: candidate.source is SignalSource.PROMETHEUS,
            seconds=90,
        )
        newest = observed.samples[-1]
        assert (newest.duty_source, newest.gpu_utilization) == (UtilizationSource.NVML, 0.25)


async def test_no_query_is_sent_before_the_ca_certificate_is_available(tmp_path: Path) -> None:
    with pytest.raises(
        CallFailed, match="ConfigMap ca in namespace penstock-system cannot be read"
    ):
        await accesses().of(MetricsServer("https://127.0.0.1:1", KeyOf("ca", "ca.crt")))
