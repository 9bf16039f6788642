"""A machine that is too small gets an error with the remedy before anything is downloaded."""

from collections import namedtuple
from pathlib import Path

import pytest

from tests.support.cluster import kind, preparation
from tests.support.cluster.packages import tools, virtualenv
from tests.support.cluster.places import Places
from tests.support.cluster.preparation import GO_TOOLS, NotEnoughError, check

Usage = namedtuple("Usage", "total used free")


def disk(monkeypatch: pytest.MonkeyPatch, gigabytes: float) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: Usage(0, 0, gigabytes * 1e9))


def memory(monkeypatch: pytest.MonkeyPatch, folder: Path, kibibytes: int) -> None:
    file = folder / "meminfo"
    file.write_text(f"MemTotal: 99 kB\nMemAvailable:   {kibibytes} kB\n")
    monkeypatch.setattr(preparation, "available_memory_gigabytes", lambda: real_memory(file))


real_memory = preparation.available_memory_gigabytes


def test_too_little_disk_is_an_error_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    disk(monkeypatch, 3)
    memory(monkeypatch, tmp_path, 16_000_000)
    with pytest.raises(NotEnoughError, match=r"3 GB free and 6 GB are needed: .* PENSTOCK_CACHE"):
        check(Places(tmp_path), [GO_TOOLS["node"]])


def test_too_little_memory_is_an_error_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    disk(monkeypatch, 100)
    memory(monkeypatch, tmp_path, 3_000_000)
    with pytest.raises(NotEnoughError, match="3 GB of memory are available and 8 GB are needed"):
        check(Places(tmp_path), [])


def test_enough_of_both_is_no_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    disk(monkeypatch, 100)
    memory(monkeypatch, tmp_path, 16_000_000)
    check(Places(tmp_path), list(GO_TOOLS.values()))


def test_a_kernel_that_does_not_tell_its_memory_is_not_judged(tmp_path: Path) -> None:
    assert real_memory(tmp_path / "none") is None


def test_the_time_is_the_processor_time_over_the_cores() -> None:
    node = GO_TOOLS["node"]
    assert preparation.seconds([node, node], cores=4) == pytest.approx(node.cpu_seconds / 2)


def test_every_program_has_its_costs() -> None:
    assert {tool.name for tool in preparation.PROGRAMS} == set(GO_TOOLS)


def test_a_tool_that_is_built_is_not_missing(tmp_path: Path) -> None:
    places, tool = Places(tmp_path), tools.HELM
    assert tools.absent(places, [tool]) == [tool]
    program = tools.program(places, tool, "helm")
    program.parent.mkdir(parents=True)
    program.write_bytes(b"")
    assert tools.absent(places, [tool]) == []


def test_go_builds_in_caches_of_our_own_unless_the_developer_chose_some(tmp_path: Path) -> None:
    places = Places(tmp_path)
    own = tools._go_caches(places, {})
    assert all(Path(folder).is_relative_to(places.go) for folder in own.values())
    assert set(own) == {"GOCACHE", "GOMODCACHE"}
    assert tools._go_caches(places, {"GOCACHE": "/mine"}) == {}


def test_an_environment_with_all_tools_will_do_for_the_demo(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    marker = tmp_path / ".penstock"
    monkeypatch.setattr(virtualenv, "MARKER", marker)
    assert not virtualenv.has_demo()
    for extras in ("dev", virtualenv.DEMO_EXTRAS):
        marker.write_text(virtualenv._key(extras))
        assert virtualenv.has_demo()
    marker.write_text("of another pyproject.toml")
    assert not virtualenv.has_demo()


def test_an_environment_of_the_demo_is_not_one_with_all_tools() -> None:
    assert virtualenv._key("dev") != virtualenv._key(virtualenv.DEMO_EXTRAS)


@pytest.mark.parametrize("built", [False, True])
def test_kinds_images_are_billed_until_docker_has_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, built: bool
) -> None:
    monkeypatch.setenv(kind.CHOICE, "kind")
    monkeypatch.setattr(kind, "_has", lambda _: built)
    wheels = "tests.support.cluster.images.wheels"  # a wheel next to the checkout is not in Docker's build
    monkeypatch.setattr(f"{wheels}.cpu_torch", lambda: ("--no-index",))
    monkeypatch.setattr(f"{wheels}.cpu_index_answers", lambda: False)
    images = [need for need in preparation.needs(Places(tmp_path)) if "images" in need.name]
    assert images == ([] if built else [preparation.CUDA_IMAGES])
