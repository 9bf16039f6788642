"""Settings of the operator: parsing of the environment, and messages about invalid variables."""

import pytest

from penstock_operator.config import OperatorConfig, metrics_server, variables_of
from penstock_operator.errors import OperatorConfigError

REQUIRED = {"PENSTOCK_NAMESPACE": "penstock-system", "PENSTOCK_DEFAULT_RUNTIME_IMAGE": "runtime:1"}


def test_the_required_variables_suffice() -> None:
    config = OperatorConfig.from_env({**REQUIRED, "PATH": "/bin"})
    assert (config.namespace, config.port, config.log_format) == ("penstock-system", 8080, "json")
    assert config.pod_name


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("PENSTOCK_NAMESPCE", "a", "PENSTOCK_NAMESPCE is not a setting; known: PENSTOCK_"),
        ("PENSTOCK_NAMESPACE", "", "PENSTOCK_NAMESPACE must be set"),
        ("PENSTOCK_LOG_FORMAT", "xml", "PENSTOCK_LOG_FORMAT must be one of json, text, got 'xml'"),
        ("PENSTOCK_LOG_LEVEL", "loud", "PENSTOCK_LOG_LEVEL must be one of"),
        ("PENSTOCK_IMAGE_PULL_POLICY", "Sometimes", "PENSTOCK_IMAGE_PULL_POLICY must be one of"),
        ("PENSTOCK_POOL_IDS", "Any", "PENSTOCK_POOL_IDS must be one of Fixed, Platform, got 'Any'"),
        ("PENSTOCK_SCOPE", "Half", "PENSTOCK_SCOPE must be one of Cluster, Namespaces, got 'Half'"),
        ("PENSTOCK_SCOPE", "Namespaces", "PENSTOCK_NAMESPACES must name at least one namespace"),
        (
            "PENSTOCK_NAMESPACES",
            "team-a",
            "PENSTOCK_NAMESPACES requires PENSTOCK_SCOPE=Namespaces",
        ),
        ("PENSTOCK_PORT", "99999", "PENSTOCK_PORT must be a port, 1 to 65535, got '99999'"),
        ("PENSTOCK_PROMETHEUS_URL", "file:///x", "PENSTOCK_PROMETHEUS_URL must be http(s)://"),
        ("PENSTOCK_POOL_NETWORK_POLICY", "{", "PENSTOCK_POOL_NETWORK_POLICY must be a JSON object"),
        (
            "PENSTOCK_POOL_NETWORK_POLICY",
            "[]",
            "PENSTOCK_POOL_NETWORK_POLICY must be a JSON object",
        ),
        (
            "PENSTOCK_POOL_NETWORK_POLICY",
            '{"clusterPort": []}',
            "PENSTOCK_POOL_NETWORK_POLICY must be a JSON object",
        ),
        (
            "PENSTOCK_POOL_NETWORK_POLICY",
            '{"clusterPort": [{}], "ports": []}',
            "PENSTOCK_POOL_NETWORK_POLICY must be a JSON object",
        ),
        (
            "PENSTOCK_GATEWAY_IMAGE",
            "gateway:1",
            "PENSTOCK_GATEWAY_IMAGE, PENSTOCK_GATEWAY_ENVOY_IMAGE, PENSTOCK_GATEWAY_CLUSTER_ROLE must be",
        ),
        (
            "PENSTOCK_GATEWAY_POD",
            '{"hostNetwork": true}',
            "PENSTOCK_GATEWAY_POD must be a JSON object with any of imagePullSecrets, nodeSelector, priorityClassName",
        ),
        ("PENSTOCK_GATEWAY_REPLICAS", "0", "PENSTOCK_GATEWAY_REPLICAS must be 1 to 100, got '0'"),
        ("PENSTOCK_PROMETHEUS_URL", "http://u:p@x", "PENSTOCK_PROMETHEUS_URL must be http(s)://"),
    ],
)
def test_an_invalid_variable_is_named_with_the_remedy(name: str, value: str, message: str) -> None:
    with pytest.raises(OperatorConfigError) as caught:
        OperatorConfig.from_env({**REQUIRED, name: value})
    assert str(caught.value).startswith(message)


def test_namespaces_are_separated_by_commas() -> None:
    scoped = {**REQUIRED, "PENSTOCK_SCOPE": "Namespaces"}
    config = OperatorConfig.from_env({**scoped, "PENSTOCK_NAMESPACES": "team-a, team-b"})
    assert config.served == ("team-a", "team-b")
    for invalid in ("team-a,team-a", "team_a"):
        with pytest.raises(OperatorConfigError, match="valid namespace names without duplicates"):
            OperatorConfig.from_env({**scoped, "PENSTOCK_NAMESPACES": invalid})


HTTPS = {"PENSTOCK_PROMETHEUS_URL": "https://prometheus:9090"}


def test_without_a_url_there_is_no_prometheus() -> None:
    assert metrics_server(OperatorConfig.from_env(REQUIRED)) is None


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"PENSTOCK_PROMETHEUS_HEADERS": "no"}, "PENSTOCK_PROMETHEUS_HEADERS must be JSON"),
        ({"PENSTOCK_PROMETHEUS_HEADERS": '{"a": 1}'}, "PENSTOCK_PROMETHEUS_HEADERS: "),
        (
            {
                "PENSTOCK_PROMETHEUS_URL": "http://prometheus:9090",
                "PENSTOCK_PROMETHEUS_CREDENTIALS_SECRET": "reader",
            },
            "PENSTOCK_PROMETHEUS_CREDENTIALS_SECRET requires an https URL",
        ),
    ],
)
def test_the_settings_of_prometheus_are_checked_at_start(
    variables: dict[str, str], message: str
) -> None:
    with pytest.raises(OperatorConfigError) as caught:
        metrics_server(OperatorConfig.from_env({**REQUIRED, **HTTPS, **variables}))
    assert str(caught.value).startswith(message)


def test_an_argument_is_a_setting_that_precedes_the_variable() -> None:
    environ = {**REQUIRED, "PENSTOCK_LOG_LEVEL": "ERROR", "PENSTOCK_LOG_FORMAT": "text"}
    config = OperatorConfig.from_env({**environ, **variables_of(["--log-level=DEBUG"])})
    assert (config.log_level, config.log_format) == ("DEBUG", "text")


@pytest.mark.parametrize("argument", ["--verbose", "-v", "DEBUG", "--Log=1"])
def test_an_argument_of_another_form_is_rejected_with_an_example(argument: str) -> None:
    with pytest.raises(OperatorConfigError, match=f"'{argument}' must be .* as --log-level=DEBUG"):
        variables_of([argument])


def test_an_argument_that_is_no_setting_is_rejected_with_the_known_ones() -> None:
    with pytest.raises(OperatorConfigError, match="PENSTOCK_LOG_LEVL is not a setting; known: "):
        OperatorConfig.from_env({**REQUIRED, **variables_of(["--log-levl=DEBUG"])})
