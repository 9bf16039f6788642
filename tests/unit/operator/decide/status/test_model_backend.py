"""The backend of a pool's model in its status."""

from dataclasses import replace

from penstock_api.pod_contract import BackendCandidate, ModelBackendState
from penstock_api.types.status import ModelBackendStatus, PoolStatus
from penstock_operator.act.pod_limits import acknowledgement
from penstock_operator.observed import Acknowledgement
from tests.unit.operator.decide.world import World, known, pool, settled

EAGER = BackendCandidate(name="Eager", rows_per_second=(100.0, 800.04, 900.0))
OPENVINO = BackendCandidate(
    name="OpenVINO", rows_per_second=(200.0, 900.0, 1000.0), greatest_error=2.04e-7
)
ABSENT = BackendCandidate(name="Compile", message="there is no C++ compiler" + "!" * 600)


def measured(name: str) -> ModelBackendState:
    return ModelBackendState(
        name=name, batch_sizes=(1, 8, 32), candidates=(EAGER, OPENVINO, ABSENT)
    )


def world(*names: str | None, status: PoolStatus | None = None) -> World:
    subject = pool(replicas=len(names))
    if status is not None:
        subject = replace(subject, status=status)
    settled_world = settled(pool=subject)
    for pod, name in zip(settled_world.pods, names, strict=True):
        answer = settled_world.acknowledgements[pod.uid]
        state = None if name is None else measured(name)
        settled_world.acknowledgements[pod.uid] = replace(answer, model_backend=state)
    return settled_world


def test_the_status_says_what_runs_the_model_and_what_the_others_would_have_given() -> None:
    status = known(world("OpenVINO", "OpenVINO").run().status.model_backend)
    assert (status.name, status.pods, status.batch_sizes) == ("OpenVINO", 2, (1, 8, 32))
    eager, openvino, absent = known(status.candidates)
    assert eager.rows_per_second == ("100.0", "800.0", "900.0")
    assert (eager.greatest_error, openvino.greatest_error) == (None, "2.0e-07")
    assert absent.rows_per_second is None
    assert str(absent.message).startswith("there is no C++ compiler")
    assert len(str(absent.message)) == 512


def test_the_errors_of_text_generation_are_those_of_its_log_probabilities() -> None:
    errors = BackendCandidate(
        name="Torch", greatest_error=0.0213, mean_error=0.00104, equal_token_share=0.9948
    )
    subject = settled(pool=pool(replicas=1))
    (pod,) = subject.pods
    state = ModelBackendState(name="Torch", candidates=(errors,))
    answer = subject.acknowledgements[pod.uid]
    subject.acknowledgements[pod.uid] = replace(answer, model_backend=state)
    (shown,) = known(known(subject.run().status.model_backend).candidates)
    assert (shown.greatest_error, shown.mean_error) == ("2.1e-02", "1.0e-03")
    assert shown.equal_tokens_percent == "99.5"


def test_the_backend_of_most_pods_is_named_and_counted() -> None:
    status = known(world("Eager", "OpenVINO", "OpenVINO").run().status.model_backend)
    assert (status.name, status.pods) == ("OpenVINO", 2)


def test_pods_that_have_not_answered_change_nothing() -> None:
    before = PoolStatus(model_backend=ModelBackendStatus(name="OpenVINO", pods=1))
    assert world(None, status=before).run().status.model_backend == before.model_backend
    assert world(None).run().status.model_backend is None


def test_a_pod_that_names_no_word_has_an_invalid_state() -> None:
    body = b'{"modelBackend": {"name": "not a word"}}'
    answer = acknowledgement("/state", 200, body)
    assert isinstance(answer, Acknowledgement)
    assert answer.generation is None
    assert "invalid state" in answer.problem
