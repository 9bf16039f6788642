"""Settings of the gateway."""

from dataclasses import fields

import pytest

from penstock_gateway.config import BOUNDS, GatewaySettings
from penstock_gateway.errors import GatewayConfigError

REQUIRED = {"PENSTOCK_NAMESPACE": "team-a", "PENSTOCK_GATEWAY": "penstock-gateway"}


def test_values_have_the_type_of_their_field() -> None:
    settings = GatewaySettings.from_env(
        {
            **REQUIRED,
            "PENSTOCK_MAX_BODY_BYTES": "2048",
            "PENSTOCK_DRAIN_SECONDS": "1.5",
            "PENSTOCK_ACCESS_LOG": "true",
        }
    )
    assert (settings.max_body_bytes, settings.drain_seconds, settings.access_log) == (
        2048,
        1.5,
        True,
    )


def test_the_pod_is_the_host_unless_it_is_named() -> None:
    assert GatewaySettings.from_env(REQUIRED).pod_name
    assert (
        GatewaySettings.from_env({**REQUIRED, "PENSTOCK_POD_NAME": "gateway-0"}).pod_name
        == "gateway-0"
    )


def test_every_number_has_bounds() -> None:
    numbers = {setting.name for setting in fields(GatewaySettings) if setting.type in (int, float)}
    assert numbers == set(BOUNDS)


@pytest.mark.parametrize(
    ("variable", "text", "message"),
    [
        ("PENSTOCK_NAMESPACE", "", "PENSTOCK_NAMESPACE must be set"),
        ("PENSTOCK_UNHEARD_OF", "1", "PENSTOCK_UNHEARD_OF is not a setting; known: PENSTOCK_"),
        ("PENSTOCK_MAX_BODY_BYTES", "9", "PENSTOCK_MAX_BODY_BYTES must be a number from 1024"),
        ("PENSTOCK_HEAP_BYTES", "1.5", "PENSTOCK_HEAP_BYTES must be a number from"),
        ("PENSTOCK_DRAIN_SECONDS", "nan", "PENSTOCK_DRAIN_SECONDS must be a number from 0"),
        ("PENSTOCK_ACCESS_LOG", "yes", "PENSTOCK_ACCESS_LOG must be true or false, got 'yes'"),
        ("PENSTOCK_LOG_LEVEL", "LOUD", "PENSTOCK_LOG_LEVEL must be one of DEBUG"),
    ],
)
def test_a_wrong_value_names_its_variable(variable: str, text: str, message: str) -> None:
    with pytest.raises(GatewayConfigError, match=message):
        GatewaySettings.from_env({**REQUIRED, variable: text})
