"""OpenAI's `embeddings` in the fast lane."""

from functools import partial

from penstock_runtime.errors import Refusal
from penstock_runtime.pod import Pod
from penstock_runtime.protocols.fast_lane.heads import Head
from penstock_runtime.protocols.fast_lane.ways import Later
from penstock_runtime.protocols.open_inference.answers import Answer
from penstock_runtime.protocols.openai import embedding_ends
from penstock_runtime.protocols.openai.embedding_ends import Asked, Wanted
from penstock_runtime.protocols.openai.errors import of_refusal
from penstock_runtime.protocols.replies import Reply
from penstock_runtime.request import Completed, End, Request
from penstock_runtime.ticket import Ticket


class EmbeddingWay:
    """A `ways.Way`."""

    def __init__(self, pod: Pod) -> None:
        self._pod = pod
        self._model = pod.config.model_name

    def read(self, body: bytes, _head: Head) -> Later:
        """As `Way.read`: token ids are rare here, and take the way of texts."""
        return Later(
            partial(embedding_ends.tokenised, embedding_ends.read(body, self._pod), self._pod)
        )

    def to_request(self, ticket: Ticket, asked: Asked, head: Head) -> Request:
        """As `Way.to_request`."""
        patience = self._pod.admission.seconds_to_start(head.timeout_seconds)
        return embedding_ends.to_request(ticket, asked, patience)

    def served(self, wanted: Wanted, end: Completed) -> Answer:
        """As `Way.served`."""
        return Answer(embedding_ends.rendered(end, wanted, self._model), None)

    def reply_to(self, wanted: Wanted, end: End, _request_id: str) -> Reply:
        """As `Way.reply_to`."""
        return embedding_ends.reply_to(end, wanted, self._model)

    def of_refusal(self, refusal: Refusal) -> Reply:
        """As `Way.of_refusal`."""
        return of_refusal(refusal)
