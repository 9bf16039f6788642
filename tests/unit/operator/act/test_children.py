"""Fields pass from the plain create to the applies, and a stranger's object is never applied to."""

from types import MappingProxyType

from penstock_operator.act.children import handed_over
from penstock_operator.errors import Conflict, ObjectNotFound, Rejected, Unavailable, cluster_error

OURS = MappingProxyType({"manager": "penstock", "operation": "Update", "fieldsV1": {"f:spec": {}}})
KUBELET = MappingProxyType({"manager": "kube-controller-manager", "operation": "Update"})


def test_our_creates_fields_become_our_applies() -> None:
    assert handed_over([dict(OURS), dict(KUBELET)]) == [{**OURS, "operation": "Apply"}, KUBELET]


def test_an_apply_that_is_there_already_stays_and_the_create_goes() -> None:
    applied = {**OURS, "operation": "Apply", "fieldsV1": {}}
    assert handed_over([applied, dict(OURS), dict(KUBELET)]) == [applied, KUBELET]


def test_a_status_of_ours_is_left_alone() -> None:
    status = {**OURS, "subresource": "status"}
    assert handed_over([status]) == [status]


def test_answers_of_the_api_server_become_the_error_that_fits() -> None:
    kinds = {
        404: ObjectNotFound,
        409: Conflict,
        403: Rejected,
        422: Rejected,
        429: Unavailable,
        503: Unavailable,
    }
    for status, kind in kinds.items():
        assert type(cluster_error(status, b"")) is kind


def test_an_error_carries_the_api_servers_own_words() -> None:
    error = cluster_error(403, b'{"kind":"Status","reason":"Forbidden","message":"exceeded quota"}')
    assert (error.reason, error.message) == ("Forbidden", "exceeded quota")
    assert str(error) == "403 Forbidden: exceeded quota"
    assert cluster_error(502, b"<html>").reason == "Http502"
