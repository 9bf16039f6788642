"""A body of many wrong values has the first fault only, and ids without a logit end no answer."""

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pydantic import ValidationError

from penstock_runtime.protocols.handover.body import ResumedChoice
from penstock_runtime.protocols.openai.wire.base import BodyPart
from penstock_runtime.protocols.openai.wire.completion import CompletionBody, TokenizeBody
from penstock_runtime.serving.generation.loaded_model import Serving

MANY = 5000


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        pytest.param(TokenizeBody, {"prompt": "a", "tools": [1] * MANY}, id="tools"),
        pytest.param(ResumedChoice, {"choice": 0, "tokens": [-1] * MANY}, id="tokens"),
        pytest.param(
            CompletionBody,
            {"prompt": "a", "logit_bias": {f"x{n}": 1 for n in range(MANY)}},
            id="biases",
        ),
    ],
)
def test_the_first_wrong_value_ends_the_validation(
    kind: type[BodyPart], body: dict[str, Any]
) -> None:
    with pytest.raises(ValidationError) as caught:
        kind.model_validate_json(json.dumps(body))
    assert caught.value.error_count() == 1


def test_an_id_for_which_the_model_has_no_logit_ends_no_answer() -> None:
    info, tokenizer = SimpleNamespace(stop_ids=(7, 32), vocabulary=32), SimpleNamespace(end_ids=frozenset({2, 40}))  # fmt: skip
    serving = Serving(cast("Any", info), cast("Any", tokenizer), cast("Any", None), cast("Any", None))  # fmt: skip
    assert serving.own_ends == {2, 7}
