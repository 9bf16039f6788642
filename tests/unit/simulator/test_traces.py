"""Traces are read as they are, and scaled without losing their shape."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from penstock_simulator.__main__ import main
from penstock_simulator.arrivals import from_counts, requests_for, scaled
from penstock_simulator.traces import UnreadableTrace, read_trace
from tests.unit.simulator.scenarios import EXACT


def test_azure_stamps_are_read_to_the_microsecond(tmp_path: Path) -> None:
    path = tmp_path / "azure.csv.gz"
    text = "TIMESTAMP,ContextTokens\n2023-11-16 18:17:03.9799600,4808\n2023-11-16 18:17:04.0319600,3180\n"
    path.write_bytes(gzip.compress(text.encode()))
    assert read_trace(path).times == pytest.approx([0.0, 0.052])


@pytest.mark.parametrize("zone", ["", "+00:00"])
def test_azure_stamps_without_a_fraction_or_with_an_offset_are_read(
    tmp_path: Path, zone: str
) -> None:
    path = tmp_path / "azure.csv"
    stamps = ("00:00:00.009930", "00:00:01", "00:00:02.5", "00:00:03.9799600")
    lines = [f"2024-05-10 {stamp}{zone},10,10" for stamp in stamps]
    path.write_text("\n".join(("TIMESTAMP,ContextTokens,GeneratedTokens", *lines)))
    assert read_trace(path).times == pytest.approx([0.0, 0.99007, 2.49007, 3.97003])


def test_mooncake_milliseconds_and_plain_seconds_are_read(tmp_path: Path) -> None:
    mooncake, plain = tmp_path / "m.jsonl", tmp_path / "plain.txt"
    mooncake.write_text('{"timestamp": 500}\n{"timestamp": 2500}\n', encoding="utf-8")
    plain.write_text("# seconds\n10.5\n12.5,whatever\n", encoding="utf-8")
    assert list(read_trace(mooncake).times) == list(read_trace(plain).times) == [0.0, 2.0]


HUGE = '{"timestamp": %s, "input_length": %s, "output_length": 1}\n'


@pytest.mark.parametrize(
    "text",
    [
        *("", "7\n", "one\ntwo\n", "nan\n3\n", '{"time": 1}\n{"time": 2}\n'),
        HUGE % (10**400, 1) * 2,
        HUGE % (1, 10**400) * 2,
        HUGE % (1, "NaN") * 2,
        '{"timestamp": ' + 100_000 * "[" + "\n",
        "time_bin,avg_turns,session_count\ninf,1,1\n",
    ],
    ids=lambda text: text[:9],
)
def test_a_file_without_a_trace_is_rejected_by_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad.txt"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UnreadableTrace, match=r"bad\.txt"):
        read_trace(path)


@pytest.mark.parametrize("last", ["1e300", "1700000000000"], ids=["huge", "epoch of milliseconds"])
def test_a_trace_of_more_than_a_year_is_rejected(tmp_path: Path, last: str) -> None:
    (tmp_path / "long.txt").write_text(f"0\n1\n{last}\n")
    with pytest.raises(UnreadableTrace, match=r"long\.txt.*days: expected at most 366"):
        read_trace(tmp_path / "long.txt")


NUMBERS = "\n".join(str(number) for number in range(5000)).encode()
PACKED = gzip.compress(NUMBERS)


@pytest.mark.parametrize(
    "content",
    [PACKED[:-100], PACKED[:2000] + bytes(100) + PACKED[2100:], NUMBERS],
    ids=["truncated", "damaged", "not packed"],
)
def test_a_damaged_file_is_rejected_by_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.txt.gz"
    path.write_bytes(content)
    with pytest.raises(UnreadableTrace, match=r"bad\.txt\.gz"):
        read_trace(path)


def hourly(folder: Path, first: int, count: int) -> Path:
    path = folder / "hourly.csv"
    rows = [f"{3600 * hour},2.0,100" for hour in range(first, first + count)]
    path.write_text("\n".join(["time_bin,avg_turns,session_count", *rows]), encoding="utf-8")
    return path


def test_hourly_counts_without_the_days_in_use_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(UnreadableTrace, match="hours 1344 to 1415"):
        read_trace(hourly(tmp_path, 0, 24))


def test_hourly_counts_are_a_shape_that_must_be_scaled(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = hourly(tmp_path, 1344, 72)
    assert read_trace(path).duration > 4000
    words = ["simulate", "--trace", str(path), "--mean-replicas", "0", "--seconds", "60"]
    files = ["--json", str(tmp_path / "a.json"), "--plot", str(tmp_path / "a.png")]
    assert main([*words, *files]) == 2
    assert "hourly counts" in capsys.readouterr().out


def test_scaling_keeps_the_shape_and_meets_the_count() -> None:
    times = np.concatenate((np.linspace(0, 100, 100), np.linspace(100, 200, 900)))
    for wanted in (20_500.0, 333.0):
        arrivals = scaled(times, wanted, seed=1)
        assert len(arrivals) == pytest.approx(wanted, rel=0.06)
        assert (arrivals < 100).mean() == pytest.approx(0.1, abs=0.04)
        assert (np.diff(arrivals) >= 0).all()


def test_the_scale_is_eight_replicas_of_full_batches() -> None:
    assert requests_for(3600.0, EXACT, 32) / 3600.0 == pytest.approx(8 * 32 / 0.42)


def test_counts_per_bin_become_a_rate_without_steps() -> None:
    arrivals = from_counts(np.array([0.0, 60.0, 120.0]), np.array([0.0, 100.0, 0.0]), 60.0)
    assert np.median(arrivals) == pytest.approx(90.0, abs=1.0)
    assert ((arrivals > 30) & (arrivals < 150)).all()


def test_the_command_line_writes_table_plot_and_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "steady.txt"
    path.write_text("\n".join(str(i / 100) for i in range(20_000)), encoding="utf-8")
    out = ["--json", str(tmp_path / "a.json"), "--plot", str(tmp_path / "a.png")]
    laws = ["--law", "UtilizationBand", "hpa-70", "--mean-replicas", "0", "--start", "3"]
    assert main(["simulate", "--trace", str(path), *laws, *out]) == 0
    assert "hpa-70" in capsys.readouterr().out
    assert (tmp_path / "a.png").stat().st_size > 10_000
    assert '"gpu_hours"' in (tmp_path / "a.json").read_text(encoding="utf-8")
    assert main(["simulate", "--trace", str(path), "--law", "magic", *out]) == 2
