"""`JobFollower`: follows the tuner's Job to its end, and keeps its trials in the record. Does I/O."""

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock_kubectl.cluster import ClusterClient, Object
from penstock_kubectl.errors import NotEnoughData, PluginError, PoolNotFound, Unreachable
from penstock_kubectl.tune.job import KeptTrials
from penstock_operator.decide.manifests.pod_template.container import CONTAINER_NAME
from penstock_tuner.record import Event, EventKind, StudyRecord

POLL_SECONDS = 1.0
SAVE_SECONDS = 5.0
"""Time between two writes of the record."""
END_READS = 5
"""Further reads of the log of a Job that has ended, while it cannot be read."""
LAST_LINES = 3
NO_TUNER = "No module named penstock_tuner"
OLD_IMAGE = "the pool's image has no tuner: it needs the runtime image of this release, or the package with the extra `tune`"


@dataclass(frozen=True, slots=True)
class JobEnd:
    """The end of a Job."""

    failed: bool
    message: str = ""
    """Why it failed."""


@dataclass(slots=True)
class JobFollower:
    """Reads a Job, its pods and their logs until it ends."""

    cluster: ClusterClient
    namespace: str
    name: str
    record: StudyRecord
    job: str
    """UID of the Job whose study `record` has to its end; empty: of none."""
    save: Callable[[KeptTrials], None]
    """Called with record and Job, at most every SAVE_SECONDS and at the end."""
    show: Callable[[str, StudyRecord], None]
    """Called with a sentence on the state, and the record, whenever either changes."""
    error: str = ""
    unread: str = ""
    """Why the log cannot be read; empty if it was, or if its pod is gone."""
    _study: str = ""
    """Study of the newest log, once it names one."""
    _last_lines: deque[str] = field(default_factory=lambda: deque(maxlen=LAST_LINES))
    _saved: float = 0.0

    def run(self) -> JobEnd:
        """Return when the Job has ended.

        Raises:
            NotEnoughData: it is complete, and neither its log nor the record has its trials to the end.
            PluginError: as where the user may not read the log.
        """
        reads = END_READS
        while True:
            job = self.cluster.find(job_path(self.namespace, self.name))
            if job is None:
                raise PluginError(f"the Job {self.namespace}/{self.name} was deleted")
            uid, pod = job["metadata"]["uid"], self._newest_pod(job)
            if pod is None or _phase(pod) == "Pending":
                self.show(waiting_for(pod, self._job_events(job)), self.record)
            else:
                self._read_log(pod, uid)
            end = job_end(job)
            if end is not None and not (self.unread and reads):
                self._save()
                return self._ended(end, uid)
            reads -= end is not None
            time.sleep(POLL_SECONDS)

    def _ended(self, end: JobEnd, job: str) -> JobEnd:
        """Return the end with its reason. Raises `NotEnoughData` if trials of a complete Job may be missing."""
        if end.failed:
            return JobEnd(end.failed, self._reason(end))
        if self.job == job:
            return end
        if self.unread:
            raise NotEnoughData(f"the Job has ended, and its trials cannot be read: {self.unread}: run the command again")  # fmt: skip
        raise NotEnoughData(
            "the Job has ended, and the log with its trials is gone: remove it by"
            f" kubectl delete job -n {self.namespace} {self.name}, and run the command again"
        )

    def _save(self) -> None:
        self.save(KeptTrials(self.record, self.job))
        self._saved = time.monotonic()

    def _reason(self, end: JobEnd) -> str:
        lines = " | ".join(self._last_lines)
        if NO_TUNER in lines:
            return OLD_IMAGE
        return self.error or (f"{end.message}: {lines}" if lines else end.message)

    def _read_log(self, pod: Object, job: str) -> None:
        name, self.unread, self._study = pod["metadata"]["name"], "", ""
        path = f"{_core(self.namespace)}/pods/{name}/log?container={CONTAINER_NAME}&follow=true"
        try:
            self._take_lines(
                self.cluster.lines(path, f"the log of pod {self.namespace}/{name}"), job
            )
        except PoolNotFound:
            return
        except Unreachable as error:
            self.unread = str(error)
            self.show(f"waiting for {error}", self.record)

    def _take_lines(self, lines: Iterator[str], job: str) -> None:
        if not self.record.tried:
            self.show("loading the model", self.record)
        for line in lines:
            event = Event.read(line)
            if event is None:
                self._last_lines.append(line)
            else:
                self._study = event.study or self._study
                self._take(event, job)

    def _take(self, event: Event, job: str) -> None:
        """Take an event; the log is read again from its start, so that events come more than once."""
        if event.kind is EventKind.DONE and self._study == self.record.study:
            self.job = job
        elif event.kind is EventKind.ERROR:
            self.error = event.message
        elif event.kind is EventKind.TRIAL and event.tried is not None:
            known = event.study == self.record.study
            if known and event.spent_seconds <= self.record.spent_seconds:
                return
            self.record = self.record.with_trial(event.study, event.tried, event.spent_seconds)
            self.job = ""
            self.show("measuring", self.record)
            if time.monotonic() - self._saved >= SAVE_SECONDS:
                self._save()
        elif event.message:
            self.show(event.message, self.record)

    def _newest_pod(self, job: Object) -> Object | None:
        """Return the newest pod of this Job: those of a deleted one of its name may still terminate."""
        uid = job["metadata"]["uid"]
        chosen = f"labelSelector=batch.kubernetes.io%2Fcontroller-uid%3D{uid}"
        path = f"{_core(self.namespace)}/pods?{chosen}"
        pods: list[Object] = self.cluster.get(path, f"the pods of {self.namespace}")["items"]
        return max(pods, key=lambda pod: str(pod["metadata"]["creationTimestamp"]), default=None)

    def _job_events(self, job: Object) -> list[Object]:
        return self.cluster.events(self.namespace, job["metadata"]["uid"])


def job_path(namespace: str, name: str = "") -> str:
    """Return the REST path of the Jobs of a namespace, or of one."""
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    return f"{path}/{name}" if name else path


def job_end(job: Mapping[str, Any]) -> JobEnd | None:
    """Return the end of a Job; None while it runs."""
    for condition in (job.get("status") or {}).get("conditions") or ():
        if condition["status"] == "True" and condition["type"] in {"Complete", "Failed"}:
            failed = condition["type"] == "Failed"
            return JobEnd(failed, condition.get("message") or condition.get("reason") or "")
    return None


def waiting_for(pod: Mapping[str, Any] | None, job_events: list[Object]) -> str:
    """Return why the tuner does not run yet."""
    if pod is None:
        warnings = [event.get("message", "") for event in job_events if event.get("type") == "Warning"]  # fmt: skip
        return f"waiting for a pod: {warnings[-1]}" if warnings else "waiting for a pod"
    status = pod.get("status") or {}
    for condition in status.get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] != "True":
            return f"waiting for a node with a free device: {condition.get('message') or 'not scheduled yet'}"
    for container in status.get("containerStatuses") or ():
        waiting = container.get("state", {}).get("waiting") or {}
        if waiting.get("message"):
            return f"starting: {waiting.get('reason')}: {waiting['message']}"
    return "starting"


def _phase(pod: Mapping[str, Any]) -> str:
    return str((pod.get("status") or {}).get("phase") or "Pending")


def _core(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}"
