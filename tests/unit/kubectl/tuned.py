"""A cluster whose Job controller ends the tuner's Job at once, for tests of `kubectl penstock tune`."""

from pathlib import Path

from penstock_kubectl.__main__ import main
from penstock_kubectl.pool_context import pool_object
from penstock_operator.decide.manifests.pod_template.pod import pod_template
from penstock_operator.decide.manifests.revision import labelled, revision
from penstock_tuner.record import Event, EventKind, TriedSettings
from penstock_tuner.settings import LoadMeasurement, TunedSettings, TuningObjective
from tests.unit.kubectl.stage import Object, Stage, kubeconfig
from tests.unit.operator.decide.world import CONFIG

OBJECTIVE = TuningObjective(1000)
JOB = "/apis/batch/v1/namespaces/team-a/jobs/chat-tune"
CONFIG_MAP = "/api/v1/namespaces/team-a/configmaps/chat-tune"
PODS = "/api/v1/namespaces/team-a/pods"
POLICY = "/apis/penstock.dev/v1alpha1/inferencepolicies/tuned-team-a-chat"


def tried(batch: int, goodput: float, p99: float, late: int = 0) -> TriedSettings:
    """Return a complete trial."""
    on_time = int(10 * goodput)
    measured = LoadMeasurement(10.0, on_time + late, on_time, 0, p99 / 2, p99)
    return TriedSettings(TunedSettings(batch, 5), measured, (goodput, goodput, goodput))


BEST, FAST, LATE = tried(24, 200, 800), tried(4, 90, 120), tried(64, 260, 1900, late=100)


def log(*trials: TriedSettings, last: EventKind = EventKind.DONE, message: str = "") -> str:
    """Return the output of a tuner."""
    events = [Event(EventKind.READY, study="s")]
    events += [Event(EventKind.TRIAL, "", "s", 10.0 * n, each) for n, each in enumerate(trials, 1)]
    return "".join(f"{event.line()}\n" for event in [*events, Event(last, message)])


class Cluster(Stage):
    """An API server whose Job controller runs a Job at once: its pod writes `log`, and it ends."""

    def __init__(self, subject: Object, text: str, end: str = "Complete", policies: list[Object] | None = None) -> None:  # fmt: skip
        super().__init__(subject, policies or [], [])
        self.text, self.end, self.created = text, end, list[Object]()
        given = pool_object(subject)
        template = labelled(given, pod_template(given, CONFIG))
        subject["status"] = {**subject["status"], "template": {"revision": "chat-1"}}
        path = "/apis/apps/v1/namespaces/team-a/controllerrevisions/chat-1"
        self.objects[path] = revision(given, template, "inputs", 1)
        self.objects[PODS] = {"items": []}

    def write(self, method: str, target: str, body: Object | None) -> tuple[int, Object]:
        """Create, apply or delete an object; a Job ends."""
        done = super().write(method, target, body)
        if body is not None and body["kind"] == "Job":
            self.created.append(body)
            body["metadata"]["uid"] = f"uid-job-{len(self.created)}"
            body["status"] = {"conditions": [{"type": self.end, "status": "True", "message": "BackoffLimitExceeded"}]}  # fmt: skip
            metadata = {"name": "chat-tune-x", "creationTimestamp": "2026-11-26T08:00:00Z"}
            self.objects[PODS] = {"items": [{"metadata": metadata, "status": {"phase": "Succeeded"}}]}  # fmt: skip
            self.logs[f"{PODS}/chat-tune-x/log"] = self.text
        return done


def run(cluster: Stage, folder: Path, *words: str) -> int:
    """Tune the pool of a stage; return the exit status."""
    with kubeconfig(cluster, folder) as file:
        return main(["tune", "chat", "--kubeconfig", str(file), *words])
