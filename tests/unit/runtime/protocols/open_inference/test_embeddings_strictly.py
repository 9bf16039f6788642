"""Embeddings as the `openai` client sees them, and types that are strict."""

from typing import Any

import openai
import pytest

from tests.unit.runtime.protocols.open_inference.test_texts import (
    FIVE,
    LONG,
    Texts,
    embedder,
    on_path,
    root,
    short_start,
    words,
)

__all__ = ["embedder", "on_path", "root", "short_start"]


async def test_the_openai_client_lists_the_model_and_knows_a_text_that_is_too_long(
    on_path: Texts,
) -> None:
    async with openai.AsyncOpenAI(
        base_url=f"{on_path.url}/v1", api_key="none", max_retries=0
    ) as client:
        [model] = (await client.models.list()).data
        assert (model.id, model.max_model_len) == ("texts", 64)  # type: ignore[attr-defined]
        assert (await client.models.retrieve("texts")).id == "texts"
        assert (await client.embeddings.create(model="texts", input=FIVE)).data[0].embedding
        with pytest.raises(openai.NotFoundError) as unknown:
            await client.models.retrieve("other")
        assert unknown.value.code == "model_not_found"
        with pytest.raises(openai.NotFoundError) as unknown:
            await client.embeddings.create(model="other", input=FIVE)
        assert (unknown.value.code, unknown.value.param) == ("model_not_found", "model")
        for given in (LONG, "w" * 100_000, [5] * 65):
            with pytest.raises(openai.BadRequestError) as long:
                await client.embeddings.create(model="texts", input=given)
            assert long.value.code == "context_length_exceeded"
        with pytest.raises(openai.NotFoundError) as unknown:
            await client.chat.completions.create(model="texts", messages=[])
        assert unknown.value.code == "unknown_url"


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"model": 5}, "model"),
        ({"model": ["texts"]}, "model"),
        ({"truncate_prompt_tokens": -1.0}, "truncate_prompt_tokens"),
        ({"dimensions": 32.0}, "dimensions"),
        ({"dimensions": "32"}, "dimensions"),
        ({"priority": True}, "priority"),
        ({"timeout": "5"}, "timeout"),
        ({"timeout": True}, "timeout"),
        ({"encoding_format": 1}, "encoding_format"),
    ],
)
async def test_no_option_of_embeddings_is_taken_for_one_of_another_type(
    embedder: Texts, more: dict[str, Any], field: str
) -> None:
    status, answer = await embedder.embed(FIVE, **more)
    assert (status, answer["error"]["param"]) == (400, field), answer


@pytest.mark.parametrize(
    "field", ["model", "encoding_format", "dimensions", "priority", "timeout", "user"]
)
async def test_null_is_the_default_as_litellm_sends_it(embedder: Texts, field: str) -> None:
    answer = await embedder.embed(FIVE, **{field: None})
    assert answer == await embedder.embed(FIVE)
    assert answer[0] == 200


async def test_a_missing_input_is_a_missing_required_parameter(embedder: Texts) -> None:
    _, answer = await embedder.post("/v1/embeddings", {"model": "texts"})
    assert answer["error"]["code"] == "missing_required_parameter"


@pytest.mark.parametrize("shape", [[True], [1.0], [1, True], ["1"]])
async def test_a_shape_of_texts_must_be_integers(embedder: Texts, shape: list[Any]) -> None:
    status, answer = await embedder.infer({**words(FIVE), "shape": shape})
    assert (status, answer["field"]) == (400, "inputs[0].shape")
