"""Unmodified `guidellm` measures a generating runtime without a failed request."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.bench.generation.environments import GUIDELLM, make, python_of
from tests.unit.runtime.protocols.openai.served import save_tiny_model

STREAMS, REQUESTS = 8, 64
SOURCE = {
    "type": "PersistentVolumeClaim",
    "persistentVolumeClaim": {"claimName": "tiny", "path": "."},
}


def guidellm(url: str, tokenizer: Path, report: Path, **backend: str) -> dict[str, Any]:
    """Run one benchmark and return it: REQUESTS prompts of 24 tokens, 12 output tokens each, STREAMS concurrently."""
    kinds: dict[str, dict[str, object]] = {
        "backend": {"kind": "openai_http", "target": url, **backend},
        "profile": {"kind": "concurrent", "streams": STREAMS},
        "constraint": {"kind": "max_requests", "count": REQUESTS},
        "tokenizer": {"kind": "huggingface_auto", "model": tokenizer},
        "data": {"kind": "synthetic_text", "prompt_tokens": 24, "output_tokens": 12},
        "output": {"kind": "json", "path": report},
    }
    argv = [str(python_of(GUIDELLM)), "-m", "guidellm", "run", "--disable-console"]
    for name, options in kinds.items():
        argv += [f"--{name}", ",".join(f"{key}={value}" for key, value in options.items())]
    environ = {"HF_HUB_OFFLINE": "1", "PATH": "/usr/bin:/bin", "HOME": str(report.parent)}
    ran = subprocess.run(argv, env=environ, capture_output=True, check=False)
    assert ran.returncode == 0, ran.stderr.decode()[-3000:]
    (benchmark,) = json.loads(report.read_text())["benchmarks"]
    return dict(benchmark)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("form", ["/v1/chat/completions", "/v1/completions"])
def test_guidellm_measures_a_pod_and_no_request_fails(
    launch: Any, tmp_path: Path, form: str
) -> None:
    assert make(GUIDELLM), "guidellm does not install: see pip's output above"
    save_tiny_model(tmp_path / "model")
    pod = launch(
        model={"name": "tiny", "task": "TextGeneration", "source": SOURCE},
        PENSTOCK_MODEL_FOLDER=str(tmp_path / "model"),
    )
    pod.ready()
    report = tmp_path / "report.json"
    benchmark = guidellm(pod.client, tmp_path / "model", report, request_format=form)
    totals = benchmark["metrics"]["request_totals"]
    print(json.dumps({"form": form, "totals": totals}))
    assert (totals["successful"], totals["errored"], totals["incomplete"]) == (REQUESTS, 0, 0)
    answered = benchmark["metrics"]["output_token_count"]["successful"]
    assert answered["mean"] > 0
    assert pod.metric("penstock_requests_received_total") >= REQUESTS
