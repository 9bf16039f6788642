"""The tuner's Job and its record: the pod template that the operator rendered for the pool, with another command. Pure.

The template is that of the pool's ControllerRevision, so that image, model, devices and settings are those of the pool's pods
whatever version this plugin has. The Job's pods have none of its labels, by which Services, budgets and monitors select pods, the user's own among them.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from penstock_api import names
from penstock_api.pod_contract import MAX_LOAD_SECONDS
from penstock_api.types.objectives import ObjectiveMetric
from penstock_kubectl.errors import NameTaken, NotEnoughData
from penstock_kubectl.tune.load_shape import LoadShape
from penstock_operator.decide.manifests.metadata import owner
from penstock_operator.decide.manifests.pod_template.container import CONTAINER_NAME
from penstock_operator.decide.manifests.pod_template.volumes import (
    KEYS_VOLUME,
    SCRATCH_FOLDER,
    SETTINGS_VOLUME,
    TLS_VOLUME,
)
from penstock_operator.observed import PoolObject
from penstock_tuner.record import StudyRecord
from penstock_tuner.settings import TuningObjective

Manifest = dict[str, Any]
APP_NAME = "penstock-tuner"
"""Label `app.kubernetes.io/name` of a tuner's Job and ConfigMap."""
SUFFIX = "-tune"
"""Suffix of the names of Job and ConfigMap."""
ANNOTATION_OPTIONS = f"{names.GROUP}/tuner-options"
"""On the Job: hash of the tuner's arguments."""
ANNOTATION_JOB = f"{names.GROUP}/tuner-job"
"""On the ConfigMap: UID of the Job whose study it has to the end."""
RECORD_VOLUME, RECORD_FOLDER = "penstock-tune", "/etc/penstock-tune"
RECORD_KEY, LOAD_KEY = "study.json", "load.json"
"""Keys of the ConfigMap: the trials so far, and the load that they were measured under."""
UNUSED_VOLUMES = frozenset({SETTINGS_VOLUME, TLS_VOLUME, KEYS_VOLUME})
"""Volumes of a pod that serves: live limits, certificate and API keys."""
UNUSED_FIELDS = ("ports", "startupProbe", "livenessProbe", "readinessProbe")
UNUSED_POD_FIELDS = ("topologySpreadConstraints", "priorityClassName")
"""Fields of the pod that concern those that serve: the spread of the pool's pods, and a priority that may evict others."""
REPORTED_EXITS = (1, 2)
"""Exit statuses after which a new pod would end the same way: an error that the tuner reports, wrong options."""
MAX_KILLS = 3
"""Pods that may be killed before the Job fails; an eviction does not count."""
KEPT_SECONDS = 86_400
GRACE_SECONDS = 45


LIMIT_OPTIONS = {
    ObjectiveMetric.REQUEST_LATENCY: "objective-ms",
    ObjectiveMetric.TIME_TO_FIRST_TOKEN: "first-token-ms",
    ObjectiveMetric.TIME_PER_OUTPUT_TOKEN: "output-token-ms",
}
"""Options of the tuner by the latency that they limit."""


@dataclass(frozen=True, slots=True)
class TuneOptions:
    """What the tuner searches, and for how long."""

    objective: TuningObjective
    minutes: float
    clients: int
    backends: tuple[str, ...] = ()
    threads: tuple[int, ...] = ()
    disciplines: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    batched_tokens: tuple[int, ...] = ()


class KeptTrials(NamedTuple):
    """The trials that the ConfigMap has."""

    record: StudyRecord
    job: str = ""
    """UID of the Job whose study `record` has to its end; empty: of none."""


def job_name(pool: str) -> str:
    """Return the name of the Job and of its ConfigMap."""
    return pool + SUFFIX


def template_of(revision: Mapping[str, Any]) -> Manifest:
    """Return the pod template in a ControllerRevision.

    Raises:
        NotEnoughData: it has none.
    """
    template: Manifest | None = (revision.get("data") or {}).get("template")
    if not template:
        raise NotEnoughData(
            f"ControllerRevision {revision['metadata']['name']} has no pod template"
        )
    return template


def arguments(options: TuneOptions, load: LoadShape, revision: str) -> list[str]:
    """Return the arguments of the tuner; trials of another revision of the template are not comparable."""
    objective = options.objective
    words = [
        "--events", f"--folder={SCRATCH_FOLDER}/penstock-tune", f"--resume={RECORD_FOLDER}/{RECORD_KEY}",
        f"--study={revision}", f"--percent={objective.percent:g}", f"--minutes={options.minutes:g}",
        f"--clients={options.clients}", f"--rows={_list(load.rows)}",
        *(f"--{LIMIT_OPTIONS[limit.metric]}={limit.milliseconds}" for limit in objective.limits),
    ]  # fmt: skip
    if load.prompt_tokens:
        words.append(f"--prompt-tokens={_list(load.prompt_tokens)}")
    if load.output_tokens:
        words.append(f"--output-tokens={_list(load.output_tokens)}")
    if load.rate is not None:
        words.append(f"--rate={load.rate:g}")
    searched = {
        "backends": options.backends,
        "threads": options.threads,
        "disciplines": options.disciplines,
        "dtypes": options.dtypes,
        "batched-tokens": options.batched_tokens,
    }
    return [*words, *(f"--{name}={_list(values)}" for name, values in searched.items() if values)]


def _list(values: Sequence[object]) -> str:
    return ",".join(map(str, values))


def tuner_job(pool: PoolObject, template: Manifest, words: Sequence[str], minutes: float) -> Manifest:  # fmt: skip
    """Return the Job that runs the tuner with these arguments in a pod of `template`."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {**_metadata(pool), "annotations": {ANNOTATION_OPTIONS: options_hash(words)}},
        "spec": {
            "backoffLimit": MAX_KILLS,
            "activeDeadlineSeconds": int(60 * minutes) + MAX_LOAD_SECONDS,
            "ttlSecondsAfterFinished": KEPT_SECONDS,
            "podFailurePolicy": {
                "rules": [
                    {
                        "action": "FailJob",
                        "onExitCodes": {
                            "containerName": CONTAINER_NAME,
                            "operator": "In",
                            "values": list(REPORTED_EXITS),
                        },
                    },
                    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
                ]
            },
            "template": _pod(pool, template, words),
        },
    }  # fmt: skip


def options_hash(words: Sequence[str]) -> str:
    """Return a hash that is equal for equal arguments."""
    return hashlib.blake2b(json.dumps(list(words)).encode(), digest_size=8).hexdigest()


def config_map_path(namespace: str, pool: str) -> str:
    """Return the REST path of the ConfigMap with a tuner's trials."""
    return f"/api/v1/namespaces/{namespace}/configmaps/{job_name(pool)}"


def record_config_map(pool: PoolObject, kept: KeptTrials, load: LoadShape) -> Manifest:
    """Return the ConfigMap with the trials so far, which the next pod of the tuner continues from."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {**_metadata(pool), "annotations": {ANNOTATION_JOB: kept.job}},
        "data": {RECORD_KEY: kept.record.text(), LOAD_KEY: load.text()},
    }


def _metadata(pool: PoolObject) -> Manifest:
    """Return the metadata: the pool owns both objects, so that they are removed with it."""
    return {
        "name": job_name(pool.name),
        "namespace": pool.namespace,
        "labels": _labels(pool),
        "ownerReferences": [{**owner(pool), "controller": False}],
    }


def _labels(pool: PoolObject) -> dict[str, str]:
    return {
        names.LABEL_APP_NAME: APP_NAME,
        names.LABEL_APP_INSTANCE: pool.name,
        names.LABEL_APP_PART_OF: "penstock",
    }


def own(manifest: Manifest | None) -> Manifest | None:
    """Return the object that has the name of a tuner's, None without one.

    Raises:
        NameTaken: it is not a tuner's.
    """
    if manifest is None:
        return None
    metadata = manifest["metadata"]
    label = (metadata.get("labels") or {}).get(names.LABEL_APP_NAME)
    if label == APP_NAME:
        return manifest
    raise NameTaken(
        f"{manifest['kind']} {metadata['namespace']}/{metadata['name']} exists and is not a tuner's (its label {names.LABEL_APP_NAME} is"
        f" {label or 'unset'}, not {APP_NAME}): delete it, or tune a pool of another name"
    )


def _pod(pool: PoolObject, template: Manifest, words: Sequence[str]) -> Manifest:
    spec = dict(template["spec"])
    for field in UNUSED_POD_FIELDS:
        spec.pop(field, None)
    spec["containers"] = [_container(each, words) for each in spec["containers"]]
    spec["volumes"] = [
        *(volume for volume in spec.get("volumes") or () if volume["name"] not in UNUSED_VOLUMES),
        {"name": RECORD_VOLUME, "configMap": {"name": job_name(pool.name), "optional": True}},
    ]
    spec["restartPolicy"] = "Never"
    spec["terminationGracePeriodSeconds"] = GRACE_SECONDS
    metadata: Manifest = {"labels": _labels(pool)}
    if annotations := (template.get("metadata") or {}).get("annotations"):
        metadata["annotations"] = annotations
    return {"metadata": metadata, "spec": spec}


def _container(container: Manifest, words: Sequence[str]) -> Manifest:
    if container["name"] != CONTAINER_NAME:
        return container
    kept = {key: value for key, value in container.items() if key not in UNUSED_FIELDS}
    mounts = [
        *(mount for mount in container.get("volumeMounts") or () if mount["name"] not in UNUSED_VOLUMES),
        {"name": RECORD_VOLUME, "mountPath": RECORD_FOLDER, "readOnly": True},
    ]  # fmt: skip
    command = ["python3", "-m", "penstock_tuner"]
    return {**kept, "command": command, "args": list(words), "volumeMounts": mounts}
