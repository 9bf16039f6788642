"""Schemas of answers and of Open Inference bodies, in JSON Schema, by name; written by hand from `protocols/`."""

from typing import Any, Final

Object = dict[str, Any]
TEXT: Final[Object] = {"type": "string"}
COUNT: Final[Object] = {"type": "integer", "minimum": 0}
ANY: Final[Object] = {"type": "object"}
DATATYPES: Final = (
    "BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "FP32", "FP64", "BF16", "BYTES",
)  # fmt: skip


def _list(items: Object) -> Object:
    return {"type": "array", "items": items}


def _object(required: str, **properties: Object) -> Object:
    return {"type": "object", "required": required.split(), "properties": properties}


def _ref(name: str) -> Object:
    return {"$ref": f"#/components/schemas/{name}"}


def _nullable(schema: Object) -> Object:
    return {"anyOf": [schema, {"type": "null"}]}


_SHAPE: Final = _list({"type": "integer"})
_DATATYPE: Final = {"type": "string", "enum": list(DATATYPES)}
_USAGE: Final = _object(
    "prompt_tokens total_tokens", prompt_tokens=COUNT, completion_tokens=COUNT, total_tokens=COUNT,
    prompt_tokens_details=ANY,
)  # fmt: skip
_CHOICE: Final = {
    "index": COUNT,
    "finish_reason": _nullable(TEXT),
    "stop_reason": _nullable({"type": ["string", "integer"]}),
    "logprobs": _nullable(ANY),
}
_ANSWER: Final = {
    "id": TEXT,
    "object": TEXT,
    "created": COUNT,
    "model": TEXT,
    "usage": _ref("Usage"),
}

SCHEMAS: Final[dict[str, Object]] = {
    "Error": {
        "description": "`error` is a text; below `/v1`, and of `/tokenize` and `/detokenize`, OpenAI's object.",
        **_object(
            "error",
            error={
                "anyOf": [
                    TEXT,
                    _object(
                        "message type", message=TEXT, type=TEXT, param=_nullable(TEXT), code=_nullable(TEXT)
                    ),
                ]
            },
            field={**TEXT, "description": "The field at fault."},
            reason={**TEXT, "description": "The label in the pod's metrics."},
        ),
    },
    "ServerMetadata": _object("name version extensions", name=TEXT, version=TEXT, extensions=_list(TEXT)),
    "TensorMetadata": _object("name datatype shape", name=TEXT, datatype=_DATATYPE, shape=_SHAPE),
    "ModelMetadata": _object(
        "name versions platform inputs outputs", name=TEXT, versions=_list(TEXT), platform=TEXT,
        inputs=_list(_ref("TensorMetadata")), outputs=_list(_ref("TensorMetadata")), parameters=ANY,
    ),
    "ModelConfiguration": _object(
        "name platform backend max_batch_size input output", name=TEXT, platform=TEXT, backend=TEXT,
        max_batch_size=COUNT, input=_list(ANY), output=_list(ANY),
    ),
    "RepositoryIndex": _list(
        _object("name version state reason", name=TEXT, version=TEXT, state=TEXT, reason=TEXT)
    ),
    "InferRequest": {
        "description": "Binary tensors follow the JSON, as its extension describes: `Inference-Header-Content-Length`.",
        **_object(
            "inputs",
            id=TEXT,
            inputs=_list(
                _object("name datatype shape", name=TEXT, datatype=_DATATYPE, shape=_SHAPE, data=_list({}), parameters=ANY)
            ),
            outputs=_list(_object("name", name=TEXT, parameters=ANY)),
            parameters={
                "type": "object",
                "properties": {
                    "priority": {**COUNT, "description": "1 is the highest; 0 is unset."},
                    "timeout": {**COUNT, "description": "Microseconds; 0 is none."},
                    "truncate": {"type": "boolean", "description": "Text encoders: cut texts that are too long."},
                },
            },
        ),
    },
    "InferResponse": _object(
        "model_name model_version outputs", model_name=TEXT, model_version=TEXT, id=TEXT,
        outputs=_list(_object("name datatype shape", name=TEXT, datatype=_DATATYPE, shape=_SHAPE, data=_list({}), parameters=ANY)),
    ),
    "ModelCard": _object("id object", id=TEXT, object=TEXT, created=COUNT, owned_by=TEXT, max_model_len=COUNT),
    "ModelList": _object("object data", object=TEXT, data=_list(_ref("ModelCard"))),
    "Version": _object("version", version=TEXT),
    "Usage": _USAGE,
    "ChatCompletion": _object(
        "id object created model choices usage", **_ANSWER,
        choices=_list(_object("index message finish_reason", **_CHOICE, message=ANY)),
    ),
    "Completion": _object(
        "id object created model choices usage", **_ANSWER,
        choices=_list(_object("index text finish_reason", **_CHOICE, text=TEXT)),
    ),
    "Generated": _object("model_name model_version text_output", model_name=TEXT, model_version=TEXT, id=TEXT, text_output=TEXT),
    "Tokens": _object("count max_model_len tokens", count=COUNT, max_model_len=COUNT, tokens=_list(COUNT), token_strs=_list(TEXT)),
    "Detokenized": _object("prompt", prompt=TEXT),
    "EmbeddingRequest": _object(
        "input",
        model=TEXT,
        input={
            "anyOf": [
                {**TEXT, "minLength": 1},
                {"type": "array", "minItems": 1, "maxItems": 2048, "items": {**TEXT, "minLength": 1}},
                {"type": "array", "minItems": 1, "items": COUNT},
                {"type": "array", "minItems": 1, "maxItems": 2048, "items": {"type": "array", "minItems": 1, "items": COUNT}},
            ]
        },
        encoding_format=_nullable({"type": "string", "enum": ["float", "base64"]}),
        dimensions={"type": "integer", "description": "The model's own, if at all."},
        truncate_prompt_tokens={"anyOf": [{"const": -1}, {"type": "null"}]},
        priority=_nullable(COUNT),
        timeout={"type": "number", "exclusiveMinimum": 0, "description": "Seconds."},
    ),
    "EmbeddingList": _object(
        "object data model usage", object=TEXT, model=TEXT, usage=_ref("Usage"),
        data=_list(_object("object index embedding", object=TEXT, index=COUNT, embedding={"anyOf": [_list({"type": "number"}), TEXT]})),
    ),
}  # fmt: skip
