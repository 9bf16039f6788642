"""The OpenAPI 3.1 description of a pod's port 8000, for every task.

Bodies of OpenAI's routes come from the types that parse them; the routes are held equal to the server's router by
tests/unit/docs/test_openapi.py.
"""

from collections.abc import Mapping
from typing import Any, Final

from pydantic.json_schema import GenerateJsonSchema, models_json_schema

from penstock_api import names
from penstock_runtime.protocols.handover.body import ContinuationBody
from penstock_runtime.protocols.openai.wire.chat import ChatBody
from penstock_runtime.protocols.openai.wire.completion import (
    CompletionBody,
    DetokenizeBody,
    TokenizeBody,
)
from penstock_runtime.protocols.openai.wire.generate import GenerateBody
from tests.support.pages import openapi_schemas as own

Object = dict[str, Any]
ALL: Final = "every pool"
GENERATION: Final = "TextGeneration"
EMBEDDING: Final = "Embedding"
TAGS: Final = {
    ALL: "Open Inference (KServe v2), served by pools of every task; `infer` by all but TextGeneration.",
    GENERATION: "OpenAI's API and Triton's generate extension, served by pools of task TextGeneration.",
    EMBEDDING: "OpenAI's embeddings, served by pools of task Embedding.",
}
_BODIES: Final = (
    ChatBody,
    CompletionBody,
    TokenizeBody,
    DetokenizeBody,
    GenerateBody,
    ContinuationBody,
)
_ERRORS: Final = {
    "400": "The body or a field is invalid; the message names field, value and remedy.",
    "401": "The pool has API keys, and the request has none of them.",
    "404": "The model or the path is unknown.",
    "408": "The body did not come in time.",
    "413": "The body is too large.",
    "429": "The queue or the memory for requests is full, or the deadline cannot be met; wait for `Retry-After`.",
    "500": "The model failed.",
    "503": "The pod loads or stops; wait for `Retry-After`.",
    "504": "The deadline passed.",
}


def document() -> Object:
    """Return the description."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Penstock pod",
            "version": "v1alpha1",
            "description": "Client API of a pool, on port 8000 of its Service.",
            "license": {"name": "Apache 2.0", "identifier": "Apache-2.0"},
        },
        "servers": [
            {
                "url": "http://{pool}.{namespace}:8000",
                "variables": {"pool": {"default": "chat"}, "namespace": {"default": "default"}},
            }
        ],
        "tags": [{"name": name, "description": text} for name, text in TAGS.items()],
        "security": [{}, {"bearer": []}, {"key": []}],
        "paths": paths(),
        "components": {
            "schemas": {**own.SCHEMAS, **_body_schemas()},
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "key": {"type": "apiKey", "in": "header", "name": "X-Api-Key"},
            },
        },
    }


def _body_schemas() -> Mapping[str, Object]:
    _, definitions = models_json_schema(
        [(body, "validation") for body in _BODIES],
        ref_template="#/components/schemas/{model}",
        schema_generator=GenerateJsonSchema,
    )
    schemas: Mapping[str, Object] = definitions["$defs"]
    return schemas


def paths() -> Object:
    """Return every path of every task."""
    return {**_open_inference(), **_openai(), **_generate()}


def _open_inference() -> Object:
    versions = ("/v2/models/{model}", "/v2/models/{model}/versions/{version}")
    listed: Object = {
        "/v2": {"get": _read("Server metadata", "ServerMetadata", ALL)},
        "/v2/": {"get": _read("Server metadata", "ServerMetadata", ALL)},
        "/v2/health/live": {"get": _status("Whether the pod is alive", ALL)},
        "/v2/health/ready": {"get": _status("Whether the pod serves", ALL)},
        "/v2/repository/index": {"post": _read("Served models", "RepositoryIndex", ALL, "200")},
        "/v2/repository/models/{model}/load": {"post": _rejected("Load a model: rejected", ALL)},
        "/v2/repository/models/{model}/unload": {
            "post": _rejected("Unload a model: rejected", ALL)
        },
        "/metrics": {"get": _text("Metrics for Prometheus", "text/plain", ALL)},
    }
    for path in versions:
        listed |= {
            path: {"get": _read("Model metadata", "ModelMetadata", ALL)},
            f"{path}/config": {
                "get": _read("Model configuration, as Triton's", "ModelConfiguration", ALL)
            },
            f"{path}/ready": {"get": _status("Whether the model is ready", ALL)},
            f"{path}/infer": {"post": _write("Infer", "InferRequest", "InferResponse", ALL)},
        }
    return {path: _with_parameters(path, item) for path, item in listed.items()}


def _openai() -> Object:
    return {
        path: _with_parameters(path, item)
        for path, item in {
            "/v1/models": {"get": _read("List models", "ModelList", GENERATION, EMBEDDING)},
            "/v1/models/{model}": {"get": _read("One model", "ModelCard", GENERATION, EMBEDDING)},
            "/v1/chat/completions": {
                "post": _write(
                    "Chat completion", "ChatBody", "ChatCompletion", GENERATION, streams=True
                )
            },
            "/v1/completions": {
                "post": _write(
                    "Completion", "CompletionBody", "Completion", GENERATION, streams=True
                )
            },
            "/v1/embeddings": {
                "post": _write("Embeddings", "EmbeddingRequest", "EmbeddingList", EMBEDDING)
            },
            names.PATH_HANDOVER: {
                "post": _write(
                    "Continue a generation of another pod: sent by draining pods",
                    "ContinuationBody",
                    None,
                    GENERATION,
                )
            },
            "/tokenize": {"post": _write("Tokens of a text", "TokenizeBody", "Tokens", GENERATION)},
            "/detokenize": {
                "post": _write("Text of tokens", "DetokenizeBody", "Detokenized", GENERATION)
            },
            "/health": {"get": _status("Whether the pod serves", GENERATION)},
            "/ping": {"get": _status("Whether the pod serves", GENERATION)},
            "/version": {"get": _read("Version", "Version", GENERATION)},
        }.items()
    }


def _generate() -> Object:
    listed: Object = {}
    for path in ("/v2/models/{model}", "/v2/models/{model}/versions/{version}"):
        listed[f"{path}/generate"] = {
            "post": _write("Generate a text", "GenerateBody", "Generated", GENERATION)
        }
        listed[f"{path}/generate_stream"] = {
            "post": _write(
                "Generate a text, streamed", "GenerateBody", None, GENERATION, streams=True
            )
        }
    return {path: _with_parameters(path, item) for path, item in listed.items()}


def _with_parameters(path: str, item: Object) -> Object:
    named = [name for name in ("model", "version") if f"{{{name}}}" in path]
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in named
    ]
    return ({"parameters": parameters} if parameters else {}) | item


def _schema(name: str) -> Object:
    return {"schema": {"$ref": f"#/components/schemas/{name}"}}


def _json(name: str) -> Object:
    return {"application/json": _schema(name)}


def _errors(*statuses: str) -> Object:
    return {
        status: {"description": _ERRORS[status], "content": _json("Error")} for status in statuses
    }


def _read(summary: str, answer: str, *tags: str) -> Object:
    tags = tuple(tag for tag in tags if tag in TAGS)
    success = {"200": {"description": "OK", "content": _json(answer)}}
    return {
        "summary": summary,
        "tags": list(tags),
        "responses": success | _errors("401", "404", "503"),
    }


def _status(summary: str, tag: str) -> Object:
    answers = {"200": {"description": "Yes"}, "503": {"description": "Not yet, or no longer"}}
    return {"summary": summary, "tags": [tag], "responses": answers | _errors("401", "404")}


def _rejected(summary: str, tag: str) -> Object:
    return {"summary": summary, "tags": [tag], "responses": _errors("401", "404", "503")}


def _text(summary: str, media: str, tag: str) -> Object:
    content = {media: {"schema": {"type": "string"}}}
    success = {"200": {"description": "OK", "content": content}}
    return {"summary": summary, "tags": [tag], "responses": success | _errors("401", "404")}


def _write(
    summary: str, body: str, answer: str | None, tag: str, *, streams: bool = False
) -> Object:
    content = _json(answer) if answer else {}
    if streams:
        content |= {"text/event-stream": {}}
    if body == "InferRequest":
        binary = {"schema": {"type": "string", "format": "binary"}}
        content |= {"application/octet-stream": binary}
    return {
        "summary": summary,
        "tags": [tag],
        "parameters": [
            {
                "name": "X-Request-Timeout-Ms",
                "in": "header",
                "description": "Milliseconds from arrival to the end of the answer.",
                "schema": {"type": "integer", "minimum": 1},
            }
        ],
        "requestBody": {"required": True, "content": _json(body)},
        "responses": {"200": {"description": "OK", "content": content}, **_errors(*_ERRORS)},
    }
