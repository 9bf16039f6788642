"""Checks of an installation from inside the cluster: `python3 -m penstock_operator.installation_check CHECK ...`.

`helm test` runs all of them. A check is repeated until it passes; the exit status is 1 if one has not passed after 60 s.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from penstock_api import names
from penstock_operator.errors import ClusterError, OperatorConfigError
from penstock_operator.kube import kinds
from penstock_operator.kube.client import ApiClient, ApiRequest, connect

DEADLINE_SECONDS = 60.0
"""Time for all checks; the operator's first list takes seconds, and its Lease may expire first (15 s)."""
PAUSE_SECONDS = 1.0
DRY_RUN = MappingProxyType({"dryRun": "All", "fieldValidation": "Strict"})

Json = dict[str, Any]


class NotYet(Exception):
    """A check has not passed; the message says what is wrong and what to do."""


@dataclass(frozen=True, slots=True)
class Installation:
    """The operator's namespace and Deployment."""

    namespace: str
    deployment: str


async def served(client: ApiClient, _: Installation) -> str:
    """Check that the API server serves both kinds."""
    try:
        resources = await client.get(f"/apis/{names.API_VERSION}")
    except ClusterError as error:
        raise NotYet(f"{names.API_VERSION} is not served ({error}): install the CRDs") from error
    missing = missing_kinds(resources)
    if missing:
        raise NotYet(f"{names.API_VERSION} lacks {', '.join(missing)}: install the CRDs")
    return f"{names.API_VERSION} is served"


async def accepted(client: ApiClient, installation: Installation) -> str:
    """Check that the API server accepts a pool, in a dry run."""
    path = kinds.POOL.path(installation.namespace)
    try:
        await client.send(ApiRequest("POST", path, sample_pool(), DRY_RUN))
    except ClusterError as error:
        raise NotYet(
            f"a pool is rejected in namespace {installation.namespace} ({error}): check the CRDs,"
            " admission webhooks and quotas, and that this ServiceAccount may create pools"
        ) from error
    return "a pool is accepted in a dry run"


async def available(client: ApiClient, installation: Installation) -> str:
    """Check that every replica of the operator is Ready."""
    name = installation.deployment
    try:
        deployment = await client.get(kinds.DEPLOYMENT.path(installation.namespace, name))
    except ClusterError as error:
        raise NotYet(f"Deployment {name} cannot be read: {error}") from error
    wanted, ready = deployment["spec"]["replicas"], ready_replicas(deployment)
    if ready < wanted:
        raise NotYet(
            f"{ready} of {wanted} replicas of Deployment {name} are Ready and up to date:"
            f" see kubectl describe and logs of its pods in namespace {installation.namespace}"
        )
    return f"all {wanted} replicas of the operator are Ready"


@dataclass(slots=True)
class RenewalCheck:
    """Checks that a leader renews the Lease. Its times are another machine's, so two of them are compared."""

    first: str | None = None
    """`renewTime` when it was first read."""

    async def __call__(self, client: ApiClient, installation: Installation) -> str:
        """Compare `renewTime` with the first one."""
        group = "/apis/coordination.k8s.io/v1"
        path = f"{group}/namespaces/{installation.namespace}/leases/{names.LEASE_NAME}"
        try:
            spec = (await client.get(path)).get("spec", {})
        except ClusterError as error:
            raise NotYet(f"Lease {names.LEASE_NAME} cannot be read: {error}") from error
        holder, renewed = spec.get("holderIdentity"), spec.get("renewTime")
        if self.first is None:
            self.first = renewed
        if not holder or renewed == self.first:
            raise NotYet(
                f"Lease {names.LEASE_NAME} is not renewed (holder {holder!r}): no operator leads; check its log"
            )
        return f"{holder} leads"


Check = Callable[[ApiClient, Installation], Awaitable[str]]
CHECKS: Mapping[str, Callable[[], Check]] = MappingProxyType(
    {
        "served": lambda: served,
        "accepted": lambda: accepted,
        "available": lambda: available,
        "leading": RenewalCheck,
    }
)


def missing_kinds(resources: Json) -> list[str]:
    """Return the kinds that an APIResourceList lacks."""
    known = {resource["kind"] for resource in resources.get("resources", ())}
    return [kind for kind in (names.POOL_KIND, names.POLICY_KIND) if kind not in known]


def ready_replicas(deployment: Json) -> int:
    """Return the number of Ready replicas of a Deployment if all of them run its newest template, else 0."""
    status = deployment.get("status", {})
    current = status.get("observedGeneration", 0) >= deployment["metadata"]["generation"]
    updated = status.get("updatedReplicas", 0) == status.get("replicas", 0)
    return int(status.get("readyReplicas", 0)) if current and updated else 0


def sample_pool() -> Json:
    """Return a valid pool; its name is the API server's choice."""
    source = {"type": "Module", "module": {"factory": "penstock_runtime.models.emulated:create"}}
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.POOL_KIND,
        "metadata": {"generateName": "installation-check-"},
        "spec": {"model": {"source": source}},
    }


async def repeated(check: Check, client: ApiClient, installation: Installation, end: float) -> str:
    """Repeat a check until it passes, and return its result; `end` is in monotonic seconds.

    Raises:
        NotYet: it has not passed by then.
    """
    while True:
        try:
            return await check(client, installation)
        except NotYet:
            if time.monotonic() >= end:
                raise
        await asyncio.sleep(PAUSE_SECONDS)


async def run(
    client: ApiClient,
    chosen: Sequence[str],
    installation: Installation,
    deadline_seconds: float = DEADLINE_SECONDS,
) -> int:
    """Run the checks in order and print their results; return the exit status."""
    end = time.monotonic() + deadline_seconds
    for name in chosen:
        try:
            result = await repeated(CHECKS[name](), client, installation, end)
        except NotYet as error:
            sys.stdout.write(f"failed: {error}\n")
            return 1
        sys.stdout.write(f"ok: {result}\n")
    return 0


async def _connect_and_run(chosen: Sequence[str], installation: Installation) -> int:
    client = ApiClient(await connect())
    try:
        return await run(client, chosen, installation)
    finally:
        await client.close()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return the exit status."""
    parser = argparse.ArgumentParser(prog="installation_check", description=__doc__)
    parser.add_argument("checks", nargs="+", choices=CHECKS)
    parser.add_argument("--namespace", required=True, help="namespace of the operator")
    parser.add_argument("--deployment", required=True, help="Deployment of the operator")
    options = parser.parse_args(arguments)
    try:
        installation = Installation(options.namespace, options.deployment)
        return asyncio.run(_connect_and_run(options.checks, installation))
    except OperatorConfigError as error:
        sys.stdout.write(f"failed: {error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())
