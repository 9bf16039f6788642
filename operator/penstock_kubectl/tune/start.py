"""Creates, replaces and deletes the tuner's Job. Does I/O."""

import time

from penstock_kubectl.cluster import ClusterClient, Object
from penstock_kubectl.errors import NotEnoughData, PluginError
from penstock_kubectl.tune.follow import job_end, job_path
from penstock_kubectl.tune.job import (
    ANNOTATION_OPTIONS,
    TuneOptions,
    arguments,
    config_map_path,
    job_name,
    options_hash,
    own,
    template_of,
    tuner_job,
)
from penstock_kubectl.tune.load_shape import LoadShape
from penstock_operator.observed import PoolObject

GONE_SECONDS = 120.0
"""Time for an old Job and its pods to be deleted."""


def start(cluster: ClusterClient, pool: PoolObject, options: TuneOptions, load: LoadShape) -> None:
    """Create the Job unless it exists with the same options.

    Raises:
        NameTaken: a Job of its name is not a tuner's.
        NotEnoughData: the operator has rendered no pod template, or a tuner with other options runs.
    """
    status = pool.status.template
    revision = None if status is None else status.revision
    if revision is None:
        raise NotEnoughData(
            f"pool {pool.namespace}/{pool.name} has no pod template yet, which the operator renders: see its condition Ready"
        )
    words = arguments(options, load, revision)
    job = own(cluster.find(job_path(pool.namespace, job_name(pool.name))))
    if job is not None and _is_current(job, words):
        return
    if job is not None:
        remove_job(cluster, pool.namespace, pool.name)
    path = f"/apis/apps/v1/namespaces/{pool.namespace}/controllerrevisions/{revision}"
    template = template_of(cluster.get(path, f"ControllerRevision {pool.namespace}/{revision}"))
    cluster.create(job_path(pool.namespace), tuner_job(pool, template, words, options.minutes))


def _is_current(job: Object, words: list[str]) -> bool:
    """Return whether the Job is the one to follow; one that failed, or ended under other options, is replaced.

    Raises:
        NotEnoughData: it runs under other options.
    """
    end, annotations = job_end(job), job["metadata"].get("annotations") or {}
    same = annotations.get(ANNOTATION_OPTIONS) == options_hash(words)
    if end is None and not same:
        name = f"{job['metadata']['namespace']}/{job['metadata']['name']}"
        raise NotEnoughData(
            f"the Job {name} runs with other options, or for an earlier revision of the pool:"
            " wait for its end, or remove it with --delete"
        )
    return same and (end is None or not end.failed)


def remove_job(cluster: ClusterClient, namespace: str, pool: str) -> bool:
    """Delete the Job and wait until it is gone; return whether there was one.

    Raises:
        NameTaken: it is not a tuner's.
        PluginError: it is not gone after GONE_SECONDS.
    """
    path, began = job_path(namespace, job_name(pool)), time.monotonic()
    if not _delete(cluster, path):
        return False
    while cluster.find(path) is not None:
        if time.monotonic() - began > GONE_SECONDS:
            raise PluginError(f"the Job {namespace}/{job_name(pool)} is still being deleted")
        time.sleep(0.5)
    return True


def remove_all(cluster: ClusterClient, namespace: str, pool: str) -> bool:
    """Delete the Job and the trials; return whether there was either. Raises `PluginError`."""
    had_job = remove_job(cluster, namespace, pool)
    return _delete(cluster, config_map_path(namespace, pool)) or had_job


def _delete(cluster: ClusterClient, path: str) -> bool:
    return own(cluster.find(path)) is not None and cluster.delete(path)
