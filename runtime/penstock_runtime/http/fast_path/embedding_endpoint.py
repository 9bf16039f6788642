"""OpenAI's `embeddings` endpoint on the fast path."""

from functools import partial

from typing_extensions import override

from penstock_runtime.errors import RequestRejected
from penstock_runtime.http.fast_path.endpoint import DeferredCall, FastEndpoint
from penstock_runtime.http.fast_path.request_head import RequestHead
from penstock_runtime.protocols.common.replies import Reply
from penstock_runtime.protocols.open_inference.infer_response import InferBody
from penstock_runtime.protocols.openai.embeddings import response as embedding_response
from penstock_runtime.protocols.openai.embeddings.response import EmbeddingInput, EmbeddingOptions
from penstock_runtime.protocols.openai.errors import of_rejection
from penstock_runtime.request import Completed, End, Request
from penstock_runtime.serving.admission.ticket import Ticket
from penstock_runtime.serving.batch.client import BatchPod


class EmbeddingEndpoint(FastEndpoint):
    """`POST /v1/embeddings`."""

    def __init__(self, pod: BatchPod) -> None:
        self._pod = pod
        self._model = pod.config.model_name

    @override
    def read(self, body: bytes, _head: RequestHead) -> DeferredCall:
        """Return a deferred call: token ids are rare here, and are handled as texts are."""
        return DeferredCall(
            partial(
                embedding_response.tokenized, embedding_response.read(body, self._pod), self._pod
            )
        )

    @override
    def to_request(self, ticket: Ticket, call: EmbeddingInput, head: RequestHead) -> Request:
        seconds = self._pod.admission.wait.seconds_to_start(head.timeout_seconds)
        return embedding_response.to_request(ticket, call, seconds)

    @override
    def served(self, options: EmbeddingOptions, end: Completed) -> InferBody:
        return InferBody(embedding_response.rendered(end, options, self._model), None)

    @override
    def reply_to(self, options: EmbeddingOptions, end: End, _request_id: str) -> Reply:
        return embedding_response.reply_to(end, options, self._model)

    @override
    def of_rejection(self, rejection: RequestRejected) -> Reply:
        return of_rejection(rejection)
