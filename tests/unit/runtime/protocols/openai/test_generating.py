"""Settings of a generating pod that depend on the machine."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock_runtime.engine.link.thread.link import ThreadHost, ThreadLink
from penstock_runtime.engine.placement import MachineProfile
from penstock_runtime.serving.generation import assembly
from penstock_runtime.serving.generation.client import GenerationPod
from tests.unit.runtime.protocols.openai.served import LIMITS, a_config
from tests.unit.runtime.settings import with_settings


def depth_of(pod: GenerationPod) -> int:
    link: Any = pod.link
    host = link._host if isinstance(link, ThreadLink) else None
    opener = host._opener if isinstance(host, ThreadHost) else link._start.open
    load, limits, depth = opener.args  # type: ignore[union-attr]
    assert callable(load)
    assert limits == LIMITS
    assert isinstance(depth, int)
    return depth


@pytest.mark.parametrize(
    ("cores", "wish", "depth"), [(1, None, 0), (2, None, 1), (2, 0, 0), (1, 1, 1)]
)
async def test_steps_overlap_with_a_second_core_or_by_configuration(
    model_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    cores: int,
    wish: int | None,
    depth: int,
) -> None:
    machine = MachineProfile(frozenset(range(cores)), online=cores, quota=None, cuda=False)
    monkeypatch.setattr(assembly, "this_machine", lambda: machine)
    config = a_config(model_folder)
    config = with_settings(config, step=replace(config.generation.step, depth=wish))
    assert depth_of(assembly.generation_pod(config, LIMITS)) == depth
