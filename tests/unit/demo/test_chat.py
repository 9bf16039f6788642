"""The chat at the demo's end: its pool is valid, its Job is restricted, and an answer is shown as it comes."""

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from penstock_api.types.pool import PoolSpec
from tests.demo import chat, training
from tests.demo.story import CHAT_POOL
from tests.support.demo_model.text import exchanges

ANSWER = ("A gate", " that meters", " water.")


class ChatServer(BaseHTTPRequestHandler):
    """Answers as a pool does: a stream of chunks, and the end of the stream."""

    received: dict[str, Any]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        type(self).received = {"path": self.path, **body}
        self.send_response(200)
        self.end_headers()
        for text in ANSWER:
            chunk = {"choices": [{"delta": {"content": text}}]}
            self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
        self.wfile.write(b'data: {"choices": []}\n\ndata: [DONE]\n\n')

    def log_message(self, *words: object) -> None:
        """Keep the tests' output clean."""


@pytest.fixture
def url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), ChatServer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_an_answer_is_shown_as_it_comes_and_returned_whole(url: str) -> None:
    shown: list[str] = []
    answer = chat.query((sys.executable,), url, chat.QUESTIONS[0], shown.append)
    assert answer == "A gate that meters water."
    assert len(shown) > 1
    assert ChatServer.received["path"] == "/v1/chat/completions"
    assert ChatServer.received["model"] == CHAT_POOL
    assert ChatServer.received["messages"][0]["content"] == chat.QUESTIONS[0]


def test_a_pool_that_does_not_answer_gives_the_reason() -> None:
    with pytest.raises(chat.NoAnswerError, match="refused"):
        chat.query((sys.executable,), "http://127.0.0.1:9", "Hello?", lambda _: None)


def test_the_questions_are_in_the_models_text() -> None:
    known = {turn.question for turn in exchanges()}
    assert set(chat.QUESTIONS) <= known


def test_the_pool_is_valid_and_needs_no_device() -> None:
    spec = PoolSpec.model_validate(chat.pool_spec())
    assert spec.accelerator is not None
    assert spec.accelerator.count == 0


def test_the_command_is_one_that_anybody_can_type() -> None:
    words = chat.command("http://10.96.0.7:8000", "What is a 'pool'?")
    assert words.startswith("curl -s http://10.96.0.7:8000/v1/chat/completions -d ")
    assert "What is a" in words


def test_the_training_meets_the_restricted_level_and_has_the_share_of_a_pod() -> None:
    pod = training.job("localhost/runtime:1")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["resources"]["requests"]["cpu"] == "50m"


def test_the_training_can_write_its_temporary_files_on_a_root_that_is_read_only() -> None:
    pod = training.job("localhost/runtime:1")["spec"]["template"]["spec"]
    mounts = {mount["mountPath"]: mount["name"] for mount in pod["containers"][0]["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert "emptyDir" in volumes[mounts["/tmp"]]  # noqa: S108 - in the container


def test_the_training_program_is_complete() -> None:
    assert {"__main__.py", "train.py", "text.py", "tokenizer.py", "corpus.txt"} <= set(
        training.sources()["data"]
    )


def test_a_users_cluster_chooses_the_volume_and_the_test_cluster_has_one() -> None:
    assert "storageClassName" not in training.claim(foreign=True)["spec"]
    assert training.claim(foreign=False)["spec"]["volumeName"]
