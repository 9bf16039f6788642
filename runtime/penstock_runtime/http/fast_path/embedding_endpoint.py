"""OpenAI's `embeddings` in the fast lane."""

from functools import partial

from penstock_runtime.errors import RequestRejected
from penstock_runtime.http.fast_path.endpoint import DeferredCall
from penstock_runtime.http.fast_path.request_head import RequestHead
from penstock_runtime.protocols.common.replies import Reply
from penstock_runtime.protocols.open_inference.infer_response import InferBody
from penstock_runtime.protocols.openai import embedding_response
from penstock_runtime.protocols.openai.embedding_response import EmbeddingInput, EmbeddingOptions
from penstock_runtime.protocols.openai.errors import of_refusal
from penstock_runtime.request import Completed, End, Request
from penstock_runtime.serving.pod import Pod
from penstock_runtime.serving.ticket import Ticket


class EmbeddingEndpoint:
    """A `endpoint.FastEndpoint`."""

    def __init__(self, pod: Pod) -> None:
        self._pod = pod
        self._model = pod.config.model_name

    def read(self, body: bytes, _head: RequestHead) -> DeferredCall:
        """As `FastEndpoint.read`: token ids are rare here, and take the way of texts."""
        return DeferredCall(
            partial(
                embedding_response.tokenised, embedding_response.read(body, self._pod), self._pod
            )
        )

    def to_request(self, ticket: Ticket, asked: EmbeddingInput, head: RequestHead) -> Request:
        """As `FastEndpoint.to_request`."""
        patience = self._pod.admission.seconds_to_start(head.timeout_seconds)
        return embedding_response.to_request(ticket, asked, patience)

    def served(self, wanted: EmbeddingOptions, end: Completed) -> InferBody:
        """As `FastEndpoint.served`."""
        return InferBody(embedding_response.rendered(end, wanted, self._model), None)

    def reply_to(self, wanted: EmbeddingOptions, end: End, _request_id: str) -> Reply:
        """As `FastEndpoint.reply_to`."""
        return embedding_response.reply_to(end, wanted, self._model)

    def of_refusal(self, refusal: RequestRejected) -> Reply:
        """As `FastEndpoint.of_refusal`."""
        return of_refusal(refusal)
