import mmap
from pathlib import Path

import numpy as np
import pytest
import torch

from penstock_api.pod_contract import MAX_BATCH_SIZE
from penstock_api.types.model import ModelSpec
from penstock_runtime import cgroup, loading
from penstock_runtime.config import RuntimeConfig
from penstock_runtime.engine.dynamic.warm_up import warm_up
from penstock_runtime.engine.model import DeviceLost, OutOfMemory
from penstock_runtime.engine.placement import EnginePlacement, Placement
from penstock_runtime.models.device.device import device_errors
from penstock_runtime.models.device.memory import ResidentMeter, bound_rows, measured_bound_rows
from tests.unit.runtime.engine.dynamic.builders import Doubling, FakeClock

MEBIBYTE = 2**20
SOURCE = {"type": "Module", "module": {"factory": "some.module:create", "arguments": {}}}


@pytest.mark.parametrize(
    ("free", "per_row", "max_rows", "bound"),
    [
        (1000, 10.0, 4096, 80),
        (1000, 999.0, 4096, 1),
        (0, 10.0, 4096, 1),
        (10**12, 1.0, 10**6, MAX_BATCH_SIZE),
        (10**12, 1.0, 32, 32),
        (100, 0.0, 4096, 80),
    ],
)
def test_the_bound_is_four_fifths_of_what_is_free(
    free: int, per_row: float, max_rows: int, bound: int
) -> None:
    assert bound_rows(free, per_row, max_rows) == bound


def test_memory_per_row_is_measured_by_running_growing_batches() -> None:
    sizes = list[int]()

    def run(rows: int) -> None:
        sizes.append(rows)
        with mmap.mmap(-1, rows * MEBIBYTE) as scratch:  # no allocator keeps a part of it
            np.frombuffer(scratch, np.uint8)[:: mmap.PAGESIZE] = 1

    class Roomy(ResidentMeter):
        def free_bytes(self) -> int:
            return 1000 * MEBIBYTE

    bound = measured_bound_rows(run, min_bytes_per_row=8, max_rows=4096, meter=Roomy())
    assert sizes in ([1, 2, 4, 8, 16, 32], [1, 2, 4, 8, 16, 32, 64])
    # 0.8 * 1000 MiB / 1 MiB, but for what other threads of the process take and give back meanwhile.
    assert 700 <= bound <= 900


def test_measuring_stops_at_the_first_batch_that_does_not_fit() -> None:
    def run(rows: int) -> None:
        if rows > 2:
            raise OutOfMemory

    assert measured_bound_rows(run, 8, 4096, ResidentMeter()) >= 1


def test_a_model_too_small_to_be_seen_counts_by_its_inputs_and_outputs() -> None:
    class Tight(ResidentMeter):
        def free_bytes(self) -> int:
            return 10_000

        def peak_growth_bytes(self) -> int:
            return 0

    assert measured_bound_rows(lambda _: None, 100, 4096, Tight()) == 80


def write(root: Path, **files: str) -> Path:
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_the_cpu_quota_is_read_from_version_2(tmp_path: Path) -> None:
    assert cgroup.cpu_quota(write(tmp_path, cpu_dot_max="150000 100000\n")) == 1.5


def test_no_cpu_quota_is_no_limit(tmp_path: Path) -> None:
    assert cgroup.cpu_quota(tmp_path) is None
    assert cgroup.cpu_quota(write(tmp_path, cpu_dot_max="max 100000\n")) is None


def test_the_cpu_quota_is_read_from_version_1(tmp_path: Path) -> None:
    files = {"cpu__cpu_dot_cfs_quota_us": "50000", "cpu__cpu_dot_cfs_period_us": "100000"}
    assert cgroup.cpu_quota(write(tmp_path, **files)) == 0.5
    assert cgroup.cpu_quota(write(tmp_path, **{**files, "cpu__cpu_dot_cfs_quota_us": "-1"})) is None


def free(tmp_path: Path, **files: str) -> int:
    write(tmp_path, meminfo="MemTotal: 9000 kB\nMemAvailable:  4000 kB\n", **files)
    return cgroup.free_memory_bytes(tmp_path, tmp_path / "meminfo")


def test_without_a_limit_what_the_machine_has_is_free(tmp_path: Path) -> None:
    assert free(tmp_path, memory_dot_max="max\n") == 4000 * 1024


def test_with_a_limit_its_rest_is_free_and_droppable_cache_counts_as_free(tmp_path: Path) -> None:
    files = {"memory_dot_max": "1000000", "memory_dot_current": "600000"}
    assert free(tmp_path, **files, memory_dot_stat="anon 1\ninactive_file 100000\n") == 500_000


def test_engines_of_a_container_divide_its_free_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    monkeypatch.setattr(cgroup.MemoryShare, "parts", 1)
    monkeypatch.setattr(loading, "load_model", lambda *_: Doubling())
    config = RuntimeConfig(model=ModelSpec.model_validate({"source": SOURCE}))
    nowhere = EnginePlacement(Placement.PROCESS, 1, frozenset(), frozenset())
    assert free(tmp_path, memory_dot_max="max\n") == 4000 * 1024
    loading.load_part(config, nowhere, index=1, parts=2)
    assert free(tmp_path, memory_dot_max="max\n") == 2000 * 1024


def test_the_memory_limit_is_read_from_version_1(tmp_path: Path) -> None:
    files = {
        "memory__memory_dot_limit_in_bytes": "1000000",
        "memory__memory_dot_usage_in_bytes": "300000",
        "memory__memory_dot_stat": "total_inactive_file 0\n",
    }
    assert free(tmp_path, **files) == 700_000
    unlimited = {**files, "memory__memory_dot_limit_in_bytes": str(2**63 - 4096)}
    assert free(tmp_path, **unlimited) == 4000 * 1024


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory"),
        MemoryError(),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"),
    ],
)
def test_every_way_of_running_out_of_memory_reads_the_same(error: Exception) -> None:
    with pytest.raises(OutOfMemory), device_errors():
        raise error


def test_a_broken_cuda_context_reads_as_a_lost_device() -> None:
    with pytest.raises(DeviceLost, match="device-side assert"), device_errors():
        raise torch.AcceleratorError("CUDA error: device-side assert triggered")


def test_other_errors_of_torch_stay_what_they_are() -> None:
    with pytest.raises(RuntimeError, match="shapes"), device_errors():
        raise RuntimeError("shapes do not match")


def test_warm_up_publishes_the_curve_and_keeps_the_bound_that_fits() -> None:
    model = Doubling(fixed_seconds=0.01, row_seconds=0.001)
    warmed = warm_up(model, model.clock)
    assert warmed.curve.service_time().fixed_seconds == pytest.approx(0.01)
    assert warmed.curve.service_time().row_seconds == pytest.approx(0.001)
    assert warmed.bound_rows == 4096


def test_warm_up_that_runs_out_of_memory_lowers_the_bound_to_what_ran() -> None:
    model = Doubling(fits=20)
    assert warm_up(model, model.clock).bound_rows == 16


def test_warm_up_of_a_slow_model_stops_in_time() -> None:
    model = Doubling(clock=FakeClock(), fixed_seconds=1.5)
    warm_up(model, model.clock)
    assert model.clock.now <= 2.0 + 2 * 1.5 + 1.5
