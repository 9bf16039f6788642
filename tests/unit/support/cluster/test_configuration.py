"""The cluster's configuration files, and the hash by which a running cluster is kept."""

import json
import tomllib
from pathlib import Path

from tests.support.cluster import settings
from tests.support.cluster.components import configuration, parts
from tests.support.cluster.components.certificates import Identity, extension_lines
from tests.support.cluster.places import Places

PLACES = Places(Path("/cache"))
NODE, PROGRAMS = Path("/tools/node"), Path("/tools")


def identity(places: Places = PLACES, node: Path = NODE, manifests: bytes = b"") -> str:
    return parts.identity_of(places, node, PROGRAMS, manifests)


def test_the_same_configuration_is_the_same_cluster() -> None:
    assert identity() == identity()


def test_another_binary_another_cache_or_another_manifest_is_another_cluster() -> None:
    others = [
        identity(node=Path("/tools/newer")),
        identity(places=Places(Path("/b"))),
        identity(manifests=b"x"),
    ]
    assert len({identity(), *others}) == 4


def test_every_part_starts_with_a_program_and_writes_to_the_run_folder_only() -> None:
    for part in parts.all_parts(PLACES, NODE, PROGRAMS):
        assert part.argv[0].startswith("/tools/")
        paths = [word.partition("=")[2] for word in part.argv if "=/" in word]
        assert all(path.startswith("/cache/cluster") for path in paths), part.name


def test_every_api_client_has_its_own_certificate_and_kubeconfig() -> None:
    files = parts.config_files(PLACES)
    for speaker in parts.API_CLIENTS:
        config = json.loads(files[f"{speaker}.kubeconfig"])
        user = config["users"][0]["user"]
        assert user["client-certificate"] == f"/cache/cluster/pki/{speaker}.crt"
        assert config["clusters"][0]["cluster"]["server"] == settings.API_SERVER


def test_nothing_is_open_to_other_machines() -> None:
    api = parts.api_part(PLACES, NODE)
    assert f"--bind-address={settings.NODE_ADDRESS}" in api.argv
    kubelet = json.loads(configuration.kubelet(PLACES.run))
    assert kubelet["address"] == settings.NODE_ADDRESS
    assert kubelet["authentication"]["anonymous"] == {"enabled": False}
    assert kubelet["authorization"] == {"mode": "Webhook"}


def test_containerd_keeps_images_in_the_cache_and_all_else_in_the_run_folder() -> None:
    config = tomllib.loads(configuration.containerd(PLACES.run, PLACES.containerd))
    assert config["root"] == "/cache/containerd"
    runtime = config["plugins"]["io.containerd.cri.v1.runtime"]
    assert runtime["restrict_oom_score_adj"]
    assert runtime["containerd"]["runtimes"]["runc"]["options"]["Root"] == "/cache/cluster/runc"
    assert config["state"].startswith("/cache/cluster/")


def test_the_audit_policy_keeps_writes_and_drops_reads_leases_and_events_first() -> None:
    rules = json.loads(configuration.audit_policy())["rules"]
    assert rules[-1] == {"level": "Metadata"}
    assert {rule["level"] for rule in rules[:-1]} == {"None"}
    assert rules[0]["verbs"] == ["get", "list", "watch"]
    quiet = [item for rule in rules for item in rule.get("resources", ())]
    assert {"group": "coordination.k8s.io", "resources": ["leases"]} in quiet
    assert {"group": "", "resources": ["events"]} in quiet


def test_a_server_certificate_names_addresses_and_names_apart() -> None:
    lines = extension_lines(Identity("a", "a", names=("10.0.0.1", "kubernetes.default")))
    assert "subjectAltName = IP:10.0.0.1, DNS:kubernetes.default\n" in lines
    assert "serverAuth" in lines


def test_a_client_certificate_is_no_server_certificate() -> None:
    identity = Identity("a", "someone", "system:nodes")
    assert "serverAuth" not in extension_lines(identity)
    assert identity.subject == "/O=system:nodes/CN=someone"
