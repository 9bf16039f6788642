"""The public traces are checked and converted, and synthetic ones stand in where they cannot be had."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from penstock_simulator.traces import read_trace
from tests.bench.control.plan import TRACES
from tests.bench.traces import __main__ as fetch
from tests.bench.traces import synthetic
from tests.bench.traces.convert import hourly
from tests.bench.traces.sources import SOURCES, ChangedTraceError, Source, git_blob
from tests.support.cluster.places import CHECKOUT

SHARED = CHECKOUT.parent / "shared" / "traces"
BURST = """Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type
5,7,3,ChatGPT,472,18,490,Conversation log
45,7,3,ChatGPT,1087,230,1317,Conversation log
118.5,,3,GPT-4,417,276,693,API log
7201,9,3,ChatGPT,1360,647,2007,Conversation log
"""
AZURE = b"TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:15:46.6805900,374,44\r\n2023-11-16 18:15:50.9951690,396,109\r\n"


def test_each_trace_of_the_plan_has_one_source_at_a_pinned_commit() -> None:
    assert sorted(source.trace for source in SOURCES) == sorted(TRACES)
    for source in SOURCES:
        assert any(len(part) == 40 for part in source.url.split("/")), source.url
        assert len(source.blob) == 40


def test_the_digest_is_gits_own() -> None:
    assert git_blob(b"hello\n") == "ce013625030ba8dba906f756967f9e9ca394464a"


def test_requests_are_counted_by_hour_and_one_without_a_session_is_its_own() -> None:
    lines = hourly(BURST.encode()).decode().splitlines()
    assert lines == [
        "time_bin,avg_turns,session_count,frac_ge2,frac_ge3",
        "0,1.5,2,0.5,0.0",
        "7200,1.0,1,0.0,0.0",
    ]


def test_a_file_as_published_is_stored_as_the_simulator_reads_it(tmp_path: Path) -> None:
    source = Source("azure_conv", "https://example.com/a.csv", git_blob(AZURE))
    fetch.store(source, AZURE, tmp_path / source.file)
    assert gzip.decompress((tmp_path / source.file).read_bytes()) == AZURE
    assert read_trace(tmp_path / source.file).duration == pytest.approx(4.314579)


def test_another_content_is_rejected_and_not_stored(tmp_path: Path) -> None:
    source = Source("azure_conv", "https://example.com/a.csv", git_blob(b"original"))
    with pytest.raises(ChangedTraceError, match=r"example\.com/a\.csv: expected .* got"):
        fetch.store(source, AZURE, tmp_path / source.file)
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not SHARED.is_dir(), reason="the traces are not next to this checkout")
@pytest.mark.parametrize("trace", ["azure_conv", "azure_code", "mooncake"])
def test_the_pinned_content_is_what_the_figures_in_the_docs_were_measured_on(trace: str) -> None:
    (source,) = [source for source in SOURCES if source.trace == trace]
    content = gzip.decompress((SHARED / source.file).read_bytes())
    source.check(content)


@pytest.mark.parametrize("trace", TRACES)
def test_a_stand_in_is_read_and_is_the_same_every_time(tmp_path: Path, trace: str) -> None:
    first = synthetic.write(tmp_path / "one") / TRACES[trace]
    second = synthetic.write(tmp_path / "two") / TRACES[trace]
    assert first.read_bytes() == second.read_bytes()
    times = read_trace(first).times
    assert len(times) == pytest.approx(synthetic.SECONDS * synthetic.REQUESTS_PER_SECOND, rel=0.05)
    assert np.all(np.diff(times) >= 0)


def test_the_stand_ins_differ_in_shape() -> None:
    peaks = {
        trace: np.bincount(synthetic.arrivals(trace).astype(int) // 60).max() for trace in TRACES
    }
    assert peaks["azure_code"] > peaks["burstgpt"] > peaks["mooncake"]
