"""Checks of an installation against a small API server: what passes, what fails, and what the message says to do."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from kubernetes.aio.client.configuration import Configuration

from penstock_api.types.pool import PoolSpec
from penstock_operator import installation_check
from penstock_operator.installation_check import Installation, sample_pool
from penstock_operator.kube.client import ApiClient
from tests.support.kube.loopback import listening, write_kubeconfig

Json = dict[str, Any]
KINDS = "/apis/penstock.dev/v1alpha1"
POOLS = f"{KINDS}/namespaces/system/inferencepools"
DEPLOYMENT = "/apis/apps/v1/namespaces/system/deployments/penstock-operator"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/system/leases/penstock-operator"
INSTALLATION = Installation("system", "penstock-operator")


def deployment(ready: int = 2, *, observed: int = 3, updated: int = 2) -> Json:
    status = {"observedGeneration": observed, "replicas": 2, "updatedReplicas": updated, "readyReplicas": ready}  # fmt: skip
    return {"metadata": {"generation": 3}, "spec": {"replicas": 2}, "status": status}


@dataclass(slots=True)
class Cluster:
    """Objects of an API server by path; a leader renews the Lease at every read."""

    objects: dict[str, Json] = field(
        default_factory=lambda: {
            KINDS: {"resources": [{"kind": "InferencePool"}, {"kind": "InferencePolicy"}]},
            DEPLOYMENT: deployment(),
            LEASE: {"spec": {"holderIdentity": "pod-1"}},
        }
    )
    rejection: str = ""
    renewing: bool = True
    later: dict[str, Json] = field(default_factory=dict)
    """Objects after the first read."""
    posted: list[tuple[str, Json]] = field(default_factory=list)
    reads: int = 0

    async def answer(self, request: web.Request) -> web.Response:
        """Return the object, or a Status."""
        self.reads += 1
        if request.method == "POST":
            self.posted.append((request.path_qs, await request.json()))
            return web.json_response({}) if not self.rejection else _status(403, self.rejection)
        stored = self.objects.get(request.path)
        self.objects |= self.later
        if stored is None:
            return _status(404, f"{request.path} not found")
        if request.path == LEASE and self.renewing:
            stored["spec"]["renewTime"] = f"2026-01-01T00:00:{self.reads:02}.000000Z"
        return web.json_response(stored)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """Serve, and yield the URL."""
        app = web.Application()
        app.router.add_route("*", "/{any:.*}", self.answer)
        async with listening(app, shutdown_seconds=0.1) as url:
            yield url


def _status(code: int, message: str) -> web.Response:
    body = {"kind": "Status", "code": code, "reason": "Forbidden", "message": message}
    return web.json_response(body, status=code)


async def run(cluster: Cluster, checks: Sequence[str], seconds: float = 0.0) -> int:
    async with cluster.serving() as url:
        client = ApiClient(Configuration(host=url))
        try:
            return await installation_check.run(client, checks, INSTALLATION, seconds)
        finally:
            await client.close()


async def test_a_sound_installation_passes_every_check(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = Cluster()
    assert await run(cluster, list(installation_check.CHECKS), seconds=60.0) == 0
    assert capsys.readouterr().out.splitlines() == [
        "ok: penstock.dev/v1alpha1 is served",
        "ok: a pool is accepted in a dry run",
        "ok: all 2 replicas of the operator are Ready",
        "ok: pod-1 leads",
    ]


async def test_the_pool_is_created_in_a_dry_run_under_strict_validation() -> None:
    cluster = Cluster()
    await run(cluster, ["accepted"])
    ((path, pool),) = cluster.posted
    assert path == f"{POOLS}?dryRun=All&fieldValidation=Strict"
    assert pool == sample_pool()
    PoolSpec.model_validate(pool["spec"])


@pytest.mark.parametrize(
    ("check", "objects", "message"),
    [
        ("served", {KINDS: None}, "penstock.dev/v1alpha1 is not served (404"),
        ("served", {KINDS: {"resources": [{"kind": "InferencePool"}]}}, "lacks InferencePolicy: install the CRDs"),
        ("available", {DEPLOYMENT: None}, "Deployment penstock-operator cannot be read: 404"),
        ("available", {DEPLOYMENT: deployment(1)}, "1 of 2 replicas of Deployment penstock-operator are Ready"),
        ("available", {DEPLOYMENT: deployment(observed=2)}, "0 of 2 replicas"),
        ("available", {DEPLOYMENT: deployment(updated=1)}, "0 of 2 replicas"),
        ("leading", {LEASE: None}, "Lease penstock-operator cannot be read: 404"),
        ("leading", {LEASE: {"spec": {"holderIdentity": ""}}}, "no operator leads; check its log"),
    ],
)  # fmt: skip
async def test_what_fails_is_said_with_a_remedy(
    check: str, objects: dict[str, Json | None], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = Cluster()
    for path, stored in objects.items():
        cluster.objects.pop(path)
        if stored is not None:
            cluster.objects[path] = stored
    assert await run(cluster, [check]) == 1
    said = capsys.readouterr().out
    assert said.startswith("failed: ")
    assert message in said


async def test_a_rejected_pool_fails_with_the_api_servers_message(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cluster = Cluster(rejection="quota exceeded")
    assert await run(cluster, ["accepted"]) == 1
    assert "a pool is rejected in namespace system (403 Forbidden: quota exceeded)" in (
        capsys.readouterr().out
    )


async def test_a_lease_that_is_not_renewed_means_no_leader() -> None:
    cluster = Cluster(renewing=False)
    cluster.objects[LEASE]["spec"]["renewTime"] = "2026-01-01T00:00:00.000000Z"
    assert await run(cluster, ["leading"], seconds=1.5) == 1
    assert cluster.reads >= 2


async def test_a_failed_check_ends_the_run() -> None:
    cluster = Cluster()
    del cluster.objects[KINDS]
    assert await run(cluster, ["served", "accepted"]) == 1
    assert cluster.posted == []


async def test_a_check_is_repeated_until_it_passes() -> None:
    cluster = Cluster(later={DEPLOYMENT: deployment()})
    cluster.objects[DEPLOYMENT] = deployment(0)
    assert await run(cluster, ["available"], seconds=60.0) == 0
    assert cluster.reads == 2


async def test_the_program_ends_with_the_outcome_of_its_checks(tmp_path: Path) -> None:
    named = ("--namespace=system", "--deployment=penstock-operator")
    async with Cluster().serving() as url:
        environ = {**os.environ, "KUBECONFIG": str(write_kubeconfig(tmp_path / "config", url))}
        program = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "penstock_operator.installation_check", *named, "served",
            env=environ, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        said, _ = await program.communicate()
    assert said.decode() == "ok: penstock.dev/v1alpha1 is served\n"
    assert program.returncode == 0
