"""The operator's Deployment as the chart renders it."""

import re
from typing import Any

import pytest

from penstock_api import names
from penstock_operator.config import OperatorConfig, metrics_server, variables_of
from penstock_operator.decide.spec.prometheus import KeyOf, MetricsServer
from tests.support.kube.target import ProgramFailedError
from tests.unit.charts.rendered import CHART, IMAGES, Object, only, rejection, render, template


@pytest.fixture(scope="module")
def plain() -> list[Object]:
    return render()


def pod(objects: list[Object]) -> Object:
    spec: Object = only(objects, "Deployment")["spec"]["template"]["spec"]
    return spec


def container(objects: list[Object]) -> Object:
    containers: list[Object] = pod(objects)["containers"]
    (operator,) = containers
    return operator


def environment(objects: list[Object]) -> dict[str, str]:
    """Return the container's environment; what comes from the pod itself is shown by its path."""
    return {
        variable["name"]: variable.get("value") or variable["valueFrom"]["fieldRef"]["fieldPath"]
        for variable in container(objects)["env"]
    }


def test_the_pod_is_restricted(plain: list[Object]) -> None:
    of_pod, of_operator = pod(plain)["securityContext"], container(plain)["securityContext"]
    assert of_pod["runAsNonRoot"] is True
    assert of_pod["runAsUser"] == 65532
    assert of_pod["seccompProfile"] == {"type": "RuntimeDefault"}
    assert of_operator == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not {"hostNetwork", "hostPID", "hostIPC"} & pod(plain).keys()
    assert not [volume for volume in pod(plain)["volumes"] if "hostPath" in volume]


def test_service_links_are_off_since_they_would_inject_unknown_settings(
    plain: list[Object],
) -> None:
    assert pod(plain)["enableServiceLinks"] is False


def test_the_operators_config_takes_what_the_chart_gives(plain: list[Object]) -> None:
    config = OperatorConfig.from_env(environment(plain))
    assert config.default_runtime_image == "registry.example/penstock-runtime:0.1.0"
    assert (config.prometheus_url, config.log_format, config.log_level) == ("", "json", "INFO")


def test_the_operators_config_takes_every_setting_of_the_chart() -> None:
    objects = render(
        prometheus__url="http://prometheus.monitoring:9090",
        logs__format="text",
        logs__level="DEBUG",
        runtimeImage__pullPolicy="Never",
    )
    config = OperatorConfig.from_env(environment(objects))
    assert config.prometheus_url == "http://prometheus.monitoring:9090"
    assert (config.log_format, config.log_level) == ("text", "DEBUG")
    assert config.image_pull_policy == "Never"


HEADER: Any = {"prometheus__headers__X-Scope-OrgID": "team-a"}


def test_the_operators_config_takes_how_prometheus_is_asked() -> None:
    objects = render(
        CHART,
        prometheus__url="https://prometheus.monitoring:9090",
        prometheus__caConfigMap__name="ca",
        prometheus__credentialsSecret="reader",
        **HEADER,
    )
    assert metrics_server(OperatorConfig.from_env(environment(objects))) == MetricsServer(
        "https://prometheus.monitoring:9090",
        KeyOf("ca", "ca.crt"),
        "reader",
        (("X-Scope-OrgID", "team-a"),),
    )


@pytest.mark.parametrize(
    ("values", "remedy"),
    [
        ({"prometheus__credentialsSecret": "reader"}, "need prometheus.url: set it"),
        ({"prometheus__credentialsSecret": "reader", "prometheus__url": "http://p"}, "an https"),
    ],
)
def test_values_that_contradict_each_other_are_rejected(
    values: dict[str, str], remedy: str
) -> None:
    with pytest.raises(ProgramFailedError, match=remedy):
        render(CHART, **values)


def test_the_gateways_pods_have_the_fields_of_the_values() -> None:
    config = OperatorConfig.from_env(
        environment(
            render(
                CHART,
                gateway__image__repository="registry.example/gateway",
                gateway__priorityClassName="high",
                **{"gateway__imagePullSecrets[0]__name": "registry"},
            )
        )
    )
    pull = [{"name": "registry"}]
    assert config.gateway_pod == {"imagePullSecrets": pull, "priorityClassName": "high"}


def test_a_changed_setting_is_a_new_pod(plain: list[Object]) -> None:
    assert pod(render(logs__level="DEBUG")) != pod(plain)


def test_probes_use_the_operators_own_port(plain: list[Object]) -> None:
    operator = container(plain)
    assert operator["ports"] == [{"name": "http", "containerPort": 8080}]
    assert operator["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "http"}
    assert operator["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "http"}
    assert {"requests", "limits"} <= operator["resources"].keys()


def test_the_image_is_repository_and_tag_or_digest(plain: list[Object]) -> None:
    digest = "sha256:" + "0" * 64
    assert container(plain)["image"] == "registry.example/penstock-operator:0.1.0"
    assert container(render(image__tag="v2"))["image"].endswith("operator:v2")
    image = container(render(image__tag="v2", image__digest=digest))["image"]
    assert image == f"registry.example/penstock-operator@{digest}"


def runtime_image(objects: list[Object]) -> str:
    return environment(objects)["PENSTOCK_DEFAULT_RUNTIME_IMAGE"]


def test_the_runtime_image_has_the_same_parts(plain: list[Object]) -> None:
    digest = "sha256:" + "0" * 64
    assert runtime_image(plain) == "registry.example/penstock-runtime:0.1.0"
    assert runtime_image(render(runtimeImage__tag="v2")).endswith("runtime:v2")
    objects = render(runtimeImage__registry="mirror:5000/", runtimeImage__digest=digest)
    assert runtime_image(objects) == f"mirror:5000/registry.example/penstock-runtime@{digest}"


def test_the_alias_of_the_runtime_image_is_still_read() -> None:
    alias = {"runtimeImage__repository": "", "defaultRuntimeImage": "registry.example/runtime:v9"}
    objects = render(CHART, **alias, defaultRuntimeImagePullPolicy="Always")
    assert runtime_image(objects) == "registry.example/runtime:v9"
    assert environment(objects)["PENSTOCK_IMAGE_PULL_POLICY"] == "Always"


def test_a_registry_precedes_the_repository() -> None:
    objects = render(image__registry="registry.example:5000", image__repository="acme/operator")
    assert container(objects)["image"] == "registry.example:5000/acme/operator:0.1.0"


def test_more_environment_arguments_and_volumes_reach_the_container() -> None:
    more: Any = {
        "extraEnv[0].name": "HTTPS_PROXY",
        "extraEnv[0].value": "http://proxy:3128",
        "extraVolumes[0].name": "more",
        "extraVolumes[0].configMap.name": "more",
        "extraVolumeMounts[0].name": "more",
        "extraVolumeMounts[0].mountPath": "/more",
    }
    objects = render(CHART, extraArgs="{--log-level=DEBUG}", **more)
    assert environment(objects)["HTTPS_PROXY"] == "http://proxy:3128"
    settings = {**environment(objects), **variables_of(container(objects)["args"])}
    assert OperatorConfig.from_env(settings).log_level == "DEBUG"
    assert mounts(objects) == {"scratch": "/tmp", "more": "/more"}  # noqa: S108
    assert volumes(objects)["more"]["configMap"] == {"name": "more"}
    assert "args" not in container(render())


OPENSHIFT = ("--api-versions", "security.openshift.io/v1")


@pytest.mark.parametrize(
    ("platform", "arguments", "fixed"),
    [
        ("Auto", (), True),
        ("Auto", OPENSHIFT, False),
        ("Kubernetes", OPENSHIFT, True),
        ("OpenShift", (), False),
    ],
)
def test_openshift_assigns_the_ids_of_the_pod(
    platform: str, arguments: tuple[str, ...], fixed: bool
) -> None:
    given = {**IMAGES, "platform": platform, "tls.secretName": "tls"}
    sets = [word for name, value in given.items() for word in ("--set", f"{name}={value}")]
    objects = template(CHART, *sets, *arguments)
    context = pod(objects)["securityContext"]
    ids = {"runAsUser": 65532, "runAsGroup": 65532, "fsGroup": 65532} if fixed else {}
    assert context == {
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
        **ids,
    }
    variables = {entry["name"]: entry.get("value") for entry in container(objects)["env"]}
    assert variables.get("PENSTOCK_POOL_IDS") == (None if fixed else "Platform")


def test_security_contexts_are_those_of_the_values() -> None:
    objects = render(
        podSecurityContext__runAsUser="1000",
        podSecurityContext__fsGroup="2000",
        securityContext__readOnlyRootFilesystem="false",
        tls__secretName="tls",
    )
    assert pod(objects)["securityContext"]["runAsUser"] == 1000
    assert pod(objects)["securityContext"]["fsGroup"] == 2000
    assert container(objects)["securityContext"]["readOnlyRootFilesystem"] is False


def test_an_account_of_ones_own_is_bound_and_not_created() -> None:
    objects = render(serviceAccount__create="false", serviceAccount__name="acme")
    assert not [manifest for manifest in objects if manifest["kind"] == "ServiceAccount"]
    assert pod(objects)["serviceAccountName"] == "acme"
    assert only(objects, "ClusterRoleBinding")["subjects"][0]["name"] == "acme"


def test_selectors_find_the_pods(plain: list[Object]) -> None:
    deployment = only(plain, "Deployment")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    for selector in (
        deployment["spec"]["selector"]["matchLabels"],
        only(plain, "Service")["spec"]["selector"],
    ):
        assert selector.items() <= labels.items()
        assert "app.kubernetes.io/version" not in selector


def test_a_new_pod_starts_before_the_old_one_ends(plain: list[Object]) -> None:
    strategy = only(plain, "Deployment")["spec"]["strategy"]
    assert strategy == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0},
    }


def test_standbys_get_a_disruption_budget(plain: list[Object]) -> None:
    assert not [manifest for manifest in plain if manifest["kind"] == "PodDisruptionBudget"]
    assert only(render(replicas="2"), "PodDisruptionBudget")["spec"]["maxUnavailable"] == 1


def test_the_pods_own_words_reach_the_pod() -> None:
    lists = {"tolerations[0].operator": "Exists", "imagePullSecrets[0].name": "e"}
    objects = render(
        CHART,
        podLabels__team="a",
        podAnnotations__note="b",
        nodeSelector__role="c",
        priorityClassName="d",
        **lists,
    )
    template = only(objects, "Deployment")["spec"]["template"]
    assert template["metadata"]["labels"]["team"] == "a"
    assert template["metadata"]["annotations"] == {"note": "b"}
    spec = template["spec"]
    assert spec["nodeSelector"] == {"role": "c"}
    assert spec["priorityClassName"] == "d"
    assert spec["tolerations"] == [{"operator": "Exists"}]
    assert spec["imagePullSecrets"] == [{"name": "e"}]


@pytest.mark.parametrize("name", ["image.repository", "runtimeImage.repository"])
def test_an_image_that_is_not_named_is_asked_for(name: str) -> None:
    said = rejection(name, "")
    assert f"{name} must be set: build" in said


@pytest.mark.parametrize(
    ("name", "value", "field"),
    [
        ("foo", "1", "foo"),
        ("image__repo", "x", "repo"),
        ("logs__format", "xml", "format"),
        ("logs__level", "TRACE", "level"),
        ("prometheus__url", "ftp://x", "url"),
        ("prometheus__url", "http://me:secret@x", "url"),
        ("replicas", "many", "replicas"),
        ("image__digest", "sha256:1", "digest"),
        ("rbac__aggregateEdit", "true", "aggregateEdit"),
        ("penstock-crds__keep", "false", "keep"),
    ],
)
def test_a_value_that_is_unknown_or_wrong_is_rejected_by_name(
    name: str, value: str, field: str
) -> None:
    assert re.search(rf"\b{field}\b", rejection(name, value))


def volumes(objects: list[Object]) -> dict[str, Object]:
    return {volume["name"]: volume for volume in pod(objects)["volumes"]}


def mounts(objects: list[Object]) -> dict[str, str]:
    return {mount["name"]: mount["mountPath"] for mount in container(objects)["volumeMounts"]}


def test_the_operators_own_port_speaks_tls_with_a_secret() -> None:
    objects = render(tls__secretName="operator-tls", metrics__serviceMonitor__enabled="true")
    config = OperatorConfig.from_env(environment(objects))
    assert config.tls_folder == mounts(objects)["tls"]
    assert volumes(objects)["tls"]["secret"]["secretName"] == "operator-tls"
    assert volumes(objects)["tls"]["secret"]["defaultMode"] == 0o440
    assert pod(objects)["securityContext"]["fsGroup"] == 65532
    for probe in ("livenessProbe", "readinessProbe"):
        assert container(objects)[probe]["httpGet"]["scheme"] == "HTTPS"
    (endpoint,) = only(objects, "ServiceMonitor")["spec"]["endpoints"]
    assert (endpoint["scheme"], endpoint["tlsConfig"]) == ("https", {"insecureSkipVerify": True})


def test_pools_certificates_are_judged_by_the_authorities_of_a_config_map() -> None:
    objects = render(poolAuthorities__configMapName="authorities", poolAuthorities__key="root.pem")
    config = OperatorConfig.from_env(environment(objects))
    assert config.pod_ca_file == f"{mounts(objects)['authorities']}/root.pem"
    assert volumes(objects)["authorities"]["configMap"] == {"name": "authorities"}


def test_pools_network_policies_let_the_operator_and_the_named_scrapers_in() -> None:
    scraper = {"poolNetworkPolicy.scrapers[0].namespaceSelector.matchLabels.team": "monitoring"}
    objects = render(CHART, poolNetworkPolicy__enabled="true", **scraper)
    peers = OperatorConfig.from_env(environment(objects)).pool_network_policy
    assert peers is not None
    operator, prometheus = peers.cluster
    labels = only(objects, "Deployment")["spec"]["template"]["metadata"]["labels"]
    assert operator["podSelector"]["matchLabels"].items() <= labels.items()
    assert operator["namespaceSelector"] == {
        "matchLabels": {"kubernetes.io/metadata.name": "penstock-system"}
    }
    assert prometheus == {"namespaceSelector": {"matchLabels": {"team": "monitoring"}}}
    assert peers.clients == ()


def test_without_their_values_none_of_these_is_set(plain: list[Object]) -> None:
    config = OperatorConfig.from_env(environment(plain))
    assert (config.tls_folder, config.pod_ca_file, config.pool_network_policy) == ("", "", None)
    assert set(mounts(plain)) == {"scratch"}
    assert "fsGroup" not in pod(plain)["securityContext"]


def test_standbys_rather_go_to_other_nodes_unless_the_values_say_where() -> None:
    (preferred,) = pod(render(replicas="2"))["affinity"]["podAntiAffinity"][
        "preferredDuringSchedulingIgnoredDuringExecution"
    ]
    objects = render(replicas="2")
    labels = only(objects, "Deployment")["spec"]["template"]["metadata"]["labels"]
    assert preferred["podAffinityTerm"]["labelSelector"]["matchLabels"].items() <= labels.items()
    assert "affinity" not in pod(render())
    said = pod(render(replicas="2", affinity__nodeAffinity__a="b"))["affinity"]
    assert said == {"nodeAffinity": {"a": "b"}}


def test_what_helm_deletes_last_is_the_operators_lease(plain: list[Object]) -> None:
    lease = only(plain, "Lease")
    assert lease["metadata"]["name"] == names.LEASE_NAME
    assert lease["metadata"]["annotations"] == {
        "helm.sh/hook": "post-delete",
        "helm.sh/hook-delete-policy": "before-hook-creation,hook-succeeded",
    }
    assert "spec" not in lease
