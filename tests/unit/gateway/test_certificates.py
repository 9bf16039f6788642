"""The certificates of pools, from a folder that the kubelet updates by swaps."""

from pathlib import Path

import pytest

from penstock_gateway.certificates import CertificateStore
from penstock_gateway.objects import PoolCertificate
from tests.unit.operator.net.certificates import Authority


@pytest.fixture
def store(tmp_path: Path) -> CertificateStore:
    return CertificateStore(tmp_path / "tls")


@pytest.fixture
def authority() -> Authority:
    return Authority.make()


def publish(
    store: CertificateStore, name: str, issuer: Authority, *, verified: bool = True
) -> None:
    """Swap the certificate of pool `demo`, as the kubelet does, for one that `issuer` signs."""
    fresh = store.folder / f"..{name}"
    store.folder.mkdir(exist_ok=True)
    fresh.mkdir()
    issuer.issue(fresh / "demo", "demo.test.svc")
    if verified:
        (fresh / "demo" / "ca.crt").write_text(issuer.pem())
    link = store.folder / "..data_tmp"
    link.symlink_to(fresh.name)
    link.rename(store.folder / "..data")
    if not (store.folder / "demo").is_symlink():
        (store.folder / "demo").symlink_to("..data/demo")


def test_without_a_folder_there_is_no_certificate(store: CertificateStore) -> None:
    assert not store.refresh()
    assert store.known == {}


def test_a_renewed_certificate_replaces_the_former(
    store: CertificateStore, authority: Authority
) -> None:
    publish(store, "first", authority)
    assert store.refresh()
    assert not store.refresh()
    first = store.valid["demo"]
    assert first.authorities == authority.pem().strip()
    publish(store, "second", authority)
    assert store.refresh()
    assert store.valid["demo"].key != first.key
    assert store.valid["demo"].authorities == first.authorities


def test_pods_with_certificates_of_a_former_authority_stay_trusted(
    store: CertificateStore, authority: Authority
) -> None:
    publish(store, "first", authority)
    store.refresh()
    other = Authority.make()
    publish(store, "second", other)
    store.refresh()
    assert store.valid["demo"].authorities == authority.pem() + other.pem().strip()
    publish(store, "third", other, verified=False)
    store.refresh()
    assert store.valid["demo"].authorities == authority.pem() + other.pem().strip()


def test_a_pair_that_does_not_match_leaves_the_former_in_use_and_is_named(
    store: CertificateStore, authority: Authority
) -> None:
    publish(store, "first", authority)
    store.refresh()
    former = store.valid["demo"]
    publish(store, "second", authority)
    (store.folder / "demo" / "tls.key").write_bytes(
        (store.folder / "..first" / "demo" / "tls.key").read_bytes()
    )
    assert store.refresh()
    assert store.valid == {"demo": former}
    assert "mismatch" in store.problems["demo"].lower()
    publish(store, "third", authority)
    assert store.refresh()
    assert store.problems == {}


def test_a_secret_without_a_key_is_a_problem_and_one_that_is_gone_changes_nothing(
    store: CertificateStore, authority: Authority
) -> None:
    publish(store, "first", authority)
    (store.folder / "demo" / "tls.key").unlink()
    assert store.refresh()
    assert isinstance(store.known["demo"], str)
    publish(store, "second", authority)
    store.refresh()
    (store.folder / "demo").unlink()
    assert not store.refresh()
    assert store.known == store.valid


def test_neither_key_nor_chain_is_printed(store: CertificateStore, authority: Authority) -> None:
    publish(store, "first", authority)
    store.refresh()
    assert repr(store.valid["demo"]) == "PoolCertificate()"
    assert store.valid["demo"] != PoolCertificate("", "")


def test_a_broken_authority_changes_nothing_and_leaves_no_trace_once_it_is_repaired(
    store: CertificateStore, authority: Authority
) -> None:
    publish(store, "first", authority)
    store.refresh()
    former = store.valid["demo"]
    publish(store, "second", authority)
    broken = authority.pem() + Authority.make().pem().partition("-----END")[0]
    (store.folder / "demo" / "ca.crt").write_text(broken)
    assert store.refresh()
    assert store.valid == {"demo": former}
    assert "ca.crt" in store.problems["demo"]
    renewed = Authority.make()
    publish(store, "third", renewed)
    assert store.refresh()
    assert store.problems == {}
    assert store.valid["demo"].authorities == authority.pem() + renewed.pem().strip()
