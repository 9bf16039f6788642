"""`kubectl penstock simulate` of a pool that generates text: steps and tokens, of the history or given."""

import json
import re
from pathlib import Path

import pytest

from penstock_api import names
from penstock_simulator.pods.step_time import StepModel
from tests.unit.kubectl.simulated import cases, proposed, run
from tests.unit.kubectl.stage import PROMETHEUS, Object, Stage, policy, pool

CLAIM = {"type": "PersistentVolumeClaim", "persistentVolumeClaim": {"claimName": "c", "path": "m"}}
TOKENS = [
    {"metric": "TimeToFirstToken", "percentile": "P99", "milliseconds": 2000},
    {"metric": "TimePerOutputToken", "percentile": "P99", "milliseconds": 50},
]
STEPS = StepModel(0.009, 0.008, 0.0001, 0.0003)


class GeneratingStage(Stage):
    """Has the sums over steps of a history too, and its tokens."""

    def _series(self, parameters: dict[str, str]) -> list[Object]:
        for index, term in enumerate(names.GENERATION_TERMS):
            if f'term="{term}"' in parameters["query"]:
                return [{"metric": {}, "value": [0, f"{history_sums()[index]}"]}]
        means = {names.METRIC_PROMPT_TOKENS_RECEIVED: 800, names.METRIC_SERVED: 100}
        for metric, mean in means.items():
            if metric in parameters["query"]:
                return [{"metric": {}, "value": [0, f"{mean}"]}]
        return super()._series(parameters)


def history_sums() -> list[float]:
    """Return the sums over steps of 1 to 32 rows, some with a chunk of a prompt."""
    total = [0.0] * len(names.GENERATION_TERMS)
    for rows in range(1, 33):
        for prefill, each in ((0, 300), (512, 900), (0, 1500)):
            read = rows * each
            x = (1.0, prefill / 256, rows, read / 4096, STEPS.seconds(prefill, rows, read))
            products = [x[i] * x[j] for i in range(5) for j in range(i, 5)]
            total = [old + new for old, new in zip(total, products, strict=True)]
    return total


def generating(stage: type[Stage] = Stage) -> Stage:
    model = {"task": "TextGeneration", "source": CLAIM}
    here = {"prometheus": {"url": PROMETHEUS}}
    subject = pool(model=model, objectives=TOKENS, batching={"size": {"max": 64}})
    return stage(subject, [policy(metrics=here)], [2.0] * 20 + [20.0] * 20)


def test_a_pool_that_generates_text_runs_with_the_steps_of_its_history(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--last", "10m", "--json", str(tmp_path / "out.json")]
    bound = proposed(
        tmp_path, bounds={"replicas": {"max": 1}}, metrics={"prometheus": {"url": PROMETHEUS}}
    )
    assert run(generating(GeneratingStage), tmp_path, *words, "--policy", bound) == 0
    free, bounded = (case["generation"] for case in cases(tmp_path).values())
    assert free["first_token_attainment"] > bounded["first_token_attainment"]
    said = " ".join(capsys.readouterr().out.split())
    assert "a step takes 9 ms, 8 for 256 prompt tokens, 0.1 a row and 0.3 for 4096" in said
    assert "as it is: first token on time" in said


@pytest.mark.parametrize(
    ("words", "prompt", "answer"), [((), 800, 100), (("--tokens", "300,20"), 300, 20)]
)
def test_tokens_are_those_of_the_history_unless_given(
    tmp_path: Path, words: tuple[str, ...], prompt: int, answer: int
) -> None:
    """Arrivals of a trace without tokens take them there too."""
    trace = tmp_path / "arrivals.txt"
    trace.write_text("".join(f"{0.1 * index:.1f}\n" for index in range(1500)))
    out = tmp_path / "out.json"
    for arrivals in (("--last", "10m"), ("--trace", str(trace))):
        given = (*arrivals, *words, "--json", str(out))
        assert run(generating(GeneratingStage), tmp_path, *given) == 0
        assumed = json.loads(out.read_text())["assumptions"]
        tokens = re.search(r"(\d+) prompt and (\d+) output tokens per request", assumed)
        assert tokens is not None
        assert [*map(int, tokens.groups())] == pytest.approx([prompt, answer], rel=0.1)


def test_of_a_pool_that_generates_text_steps_and_tokens_are_needed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words, missing in (
        (["--tokens", "800,100"], "--steps A,P,D,K"),
        (["--steps", "9,8,0.1,0.3"], "--tokens PROMPT,ANSWER"),
        (["--batch", "5,1h"], "--batch"),
    ):
        assert run(generating(), tmp_path, "--last", "10m", *words) == 1
        assert missing in capsys.readouterr().err.replace("\n", " ")


def test_a_trace_brings_its_tokens(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    lines = [{"timestamp": 400 * index, "input_length": 3000, "output_length": 30} for index in range(500)]  # fmt: skip
    trace.write_text("\n".join(map(json.dumps, lines)))
    words = ["--trace", str(trace), "--steps", "9,8,0.1,0.3", "--json", str(tmp_path / "out.json")]
    assert run(generating(), tmp_path, *words) == 0
    figures = json.loads((tmp_path / "out.json").read_text())
    assert "3000 prompt and 30 output tokens per request" in figures["assumptions"]
    assert figures["cases"][0]["requests"] > 400
