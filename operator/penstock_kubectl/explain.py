"""`kubectl penstock explain`: reads a pool and prints the page. Does I/O."""

import argparse
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from rich.console import Console

from penstock_kubectl import prometheus
from penstock_kubectl.cluster import ClusterClient
from penstock_kubectl.errors import MayNotRead, PluginError
from penstock_kubectl.explain_view import page
from penstock_kubectl.history import History, span
from penstock_kubectl.pool_context import (
    PoolContext,
    note,
    policy_object,
    policy_record,
    pool_object,
)
from penstock_operator.decide.manifests.metadata import child_name
from penstock_operator.observed import PolicyObject

LABEL_NAME = "kubernetes.io/metadata.name"
"""Label that every namespace has."""
Part = TypeVar("Part")


def read(cluster: ClusterClient, namespace: str, name: str) -> PoolContext:
    """Return a pool with its policies and Events; what the user may not read is in `unread`. Raises `PluginError`."""
    pool = pool_object(cluster.pool(namespace, name))
    notes = sorted(map(note, cluster.events(namespace, pool.uid)), key=lambda event: event.time)
    own: Mapping[str, str] = {LABEL_NAME: namespace}
    labels, no_labels = _permitted(lambda: cluster.namespace_labels(namespace), own)
    policies, no_policies = _permitted(
        lambda: list(map(policy_object, cluster.policies())), list[PolicyObject]()
    )
    path = f"/api/v1/namespaces/{namespace}/configmaps/{child_name(pool)}"
    config_map, _ = _permitted(lambda: cluster.find(path), None)
    return PoolContext(
        pool=pool,
        namespace_labels=labels,
        policies=tuple(policies),
        notes=tuple(reversed(notes)),
        unread=no_policies or no_labels,
        recorded=policy_record(config_map, pool),
    )


def _permitted(read: Callable[[], Part], otherwise: Part) -> tuple[Part, str]:
    """Return what `read` returns, or `otherwise` and the error if the user may not read it."""
    try:
        return read(), ""
    except MayNotRead as error:
        return otherwise, str(error)


def explain(args: argparse.Namespace, console: Console) -> int:
    """Explain the pool's batch cap and replica count; return the exit status. Raises `PluginError`."""
    cluster = ClusterClient(args.context, args.kubeconfig)
    subject = read(cluster, args.namespace or cluster.namespace, args.pool)
    history, reason = _past(cluster, subject, args)
    console.print(page(subject, history, reason))
    return 0


def _past(
    cluster: ClusterClient, subject: PoolContext, args: argparse.Namespace
) -> tuple[History | None, str]:
    """Return the history, or None and the reason: the page is useful without it."""
    url = prometheus.url_of(subject, args.prometheus)
    if url is None:
        return None, prometheus.WHERE
    try:
        return prometheus.read(cluster, url, subject, span(time.time(), args.last)), ""
    except PluginError as error:
        return None, str(error)
