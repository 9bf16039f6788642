"""Ownership of fields moves from the plain create to applies; errors of the API server have types."""

from types import MappingProxyType

from penstock_operator.act.children import apply_owned
from penstock_operator.errors import Conflict, ObjectNotFound, Rejected, Unavailable, cluster_error

OWN = MappingProxyType({"manager": "penstock", "operation": "Update", "fieldsV1": {"f:spec": {}}})
KUBELET = MappingProxyType({"manager": "kube-controller-manager", "operation": "Update"})


def test_an_update_entry_becomes_an_apply_entry() -> None:
    assert apply_owned([dict(OWN), dict(KUBELET)]) == [{**OWN, "operation": "Apply"}, KUBELET]


def test_an_existing_apply_entry_replaces_the_update_entry() -> None:
    applied = {**OWN, "operation": "Apply", "fieldsV1": {}}
    assert apply_owned([applied, dict(OWN), dict(KUBELET)]) == [applied, KUBELET]


def test_the_entry_of_the_status_subresource_stays() -> None:
    status = {**OWN, "subresource": "status"}
    assert apply_owned([status]) == [status]


def test_each_status_code_has_its_error_type() -> None:
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


def test_an_error_contains_reason_and_message_of_the_api_server() -> None:
    error = cluster_error(403, b'{"kind":"Status","reason":"Forbidden","message":"exceeded quota"}')
    assert (error.reason, error.message) == ("Forbidden", "exceeded quota")
    assert str(error) == "403 Forbidden: exceeded quota"
    assert cluster_error(502, b"<html>").reason == "Http502"
