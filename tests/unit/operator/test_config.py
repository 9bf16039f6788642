"""The environment is read once, and what is wrong with it is named."""

import pytest

from penstock_operator.config import OperatorConfig, metrics_server
from penstock_operator.errors import OperatorConfigError

LEAST = {"PENSTOCK_NAMESPACE": "penstock-system", "PENSTOCK_DEFAULT_RUNTIME_IMAGE": "runtime:1"}


def test_the_least_that_is_needed_is_enough() -> None:
    config = OperatorConfig.from_env({**LEAST, "PATH": "/bin"})
    assert (config.namespace, config.port, config.log_format) == ("penstock-system", 8080, "json")
    assert config.pod_name


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("PENSTOCK_NAMESPCE", "a", "PENSTOCK_NAMESPCE is not a setting; known: PENSTOCK_"),
        ("PENSTOCK_NAMESPACE", "", "PENSTOCK_NAMESPACE must be set"),
        ("PENSTOCK_LOG_FORMAT", "xml", "PENSTOCK_LOG_FORMAT must be one of json, text, got 'xml'"),
        ("PENSTOCK_LOG_LEVEL", "loud", "PENSTOCK_LOG_LEVEL must be one of"),
        ("PENSTOCK_IMAGE_PULL_POLICY", "Sometimes", "PENSTOCK_IMAGE_PULL_POLICY must be one of"),
        ("PENSTOCK_SCOPE", "Half", "PENSTOCK_SCOPE must be one of Cluster, Namespaces, got 'Half'"),
        ("PENSTOCK_SCOPE", "Namespaces", "PENSTOCK_NAMESPACES must name at least one namespace"),
        (
            "PENSTOCK_NAMESPACES",
            "team-a",
            "PENSTOCK_NAMESPACES goes with PENSTOCK_SCOPE=Namespaces",
        ),
        ("PENSTOCK_PORT", "99999", "PENSTOCK_PORT must be a port, 1 to 65535, got '99999'"),
        ("PENSTOCK_PROMETHEUS_URL", "file:///x", "PENSTOCK_PROMETHEUS_URL must be http(s)://"),
        ("PENSTOCK_POOL_NETWORK_POLICY", "{", "PENSTOCK_POOL_NETWORK_POLICY must be JSON of"),
        ("PENSTOCK_POOL_NETWORK_POLICY", "[]", "PENSTOCK_POOL_NETWORK_POLICY must be JSON of"),
        (
            "PENSTOCK_POOL_NETWORK_POLICY",
            '{"clusterPort": []}',
            "PENSTOCK_POOL_NETWORK_POLICY must be JSON of",
        ),
        (
            "PENSTOCK_POOL_NETWORK_POLICY",
            '{"clusterPort": [{}], "ports": []}',
            "PENSTOCK_POOL_NETWORK_POLICY must be JSON of",
        ),
        ("PENSTOCK_PROMETHEUS_URL", "http://u:p@x", "PENSTOCK_PROMETHEUS_URL must be http(s)://"),
    ],
)
def test_a_wrong_variable_is_named_with_its_remedy(name: str, value: str, said: str) -> None:
    with pytest.raises(OperatorConfigError) as caught:
        OperatorConfig.from_env({**LEAST, name: value})
    assert str(caught.value).startswith(said)


def test_namespaces_are_read_with_commas_between() -> None:
    scoped = {**LEAST, "PENSTOCK_SCOPE": "Namespaces"}
    config = OperatorConfig.from_env({**scoped, "PENSTOCK_NAMESPACES": "team-a, team-b"})
    assert config.served == ("team-a", "team-b")
    for wrong in ("team-a,team-a", "team_a"):
        with pytest.raises(OperatorConfigError, match="names of namespaces, each once"):
            OperatorConfig.from_env({**scoped, "PENSTOCK_NAMESPACES": wrong})


HTTPS = {"PENSTOCK_PROMETHEUS_URL": "https://prometheus:9090"}


def test_without_a_url_no_prometheus_is_asked() -> None:
    assert metrics_server(OperatorConfig.from_env(LEAST)) is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"PENSTOCK_PROMETHEUS_HEADERS": "no"}, "PENSTOCK_PROMETHEUS_HEADERS must be JSON"),
        ({"PENSTOCK_PROMETHEUS_HEADERS": '{"a": 1}'}, "PENSTOCK_PROMETHEUS_HEADERS: "),
        (
            {
                "PENSTOCK_PROMETHEUS_URL": "http://prometheus:9090",
                "PENSTOCK_PROMETHEUS_CREDENTIALS_SECRET": "reader",
            },
            "PENSTOCK_PROMETHEUS_CREDENTIALS_SECRET goes with https only",
        ),
    ],
)
def test_how_prometheus_is_asked_is_checked_at_the_start(given: dict[str, str], said: str) -> None:
    with pytest.raises(OperatorConfigError) as caught:
        metrics_server(OperatorConfig.from_env({**LEAST, **HTTPS, **given}))
    assert str(caught.value).startswith(said)
