"""A chat with the demonstration model: a second pool, which generates text on a CPU."""

import json
import shlex
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.demo import training
from tests.demo.story import CHAT_POOL, NAMESPACE
from tests.support.kube.api import Api, Object
from tests.support.kube.pools import PoolHandle, until

QUESTIONS = ("What is a penstock?", "What does Penstock do?")
TRAINED_SECONDS = 600.0
"""From the start of the show, which takes five minutes; the rest is for a busy machine."""
READY_SECONDS = 240.0
QUERY = Path(__file__).with_name("query.py")


class NoAnswerError(RuntimeError):
    """The chat pool gave no answer; the message contains the reason."""


def pool_spec() -> Object:
    """Return the pool: one CPU replica that serves the model on the claim."""
    claim = {"claimName": training.NAME, "path": training.FOLDER}
    resources = {
        "requests": {"cpu": "50m", "memory": "512Mi"},
        "limits": {"cpu": "1", "memory": "2Gi"},
    }
    return {
        "model": {
            "task": "TextGeneration",
            "source": {"type": "PersistentVolumeClaim", "persistentVolumeClaim": claim},
        },
        "accelerator": {"resourceName": "nvidia.com/gpu", "count": 0},
        "template": {"container": {"resources": resources}},
        "batching": {"mode": "Fixed", "size": {"max": 4}},
    }


def serve(api: Api) -> PoolHandle:
    """Wait for the trained model, apply the pool, and wait until it is Ready."""
    pool = PoolHandle(api, NAMESPACE, CHAT_POOL)
    until("the model trained", lambda: training.state(api), seconds=TRAINED_SECONDS, every=1)
    pool.apply(pool_spec())
    pool.await_condition("Ready", seconds=READY_SECONDS)
    return pool


def command(url: str, question: str) -> str:
    """Return what a user types for the same."""
    messages = [{"role": "user", "content": question}]
    body = json.dumps({"model": CHAT_POOL, "messages": messages, "temperature": 0})
    return f"curl -s {url}/v1/chat/completions -d {shlex.quote(body)}"


def query(runner: Sequence[str], url: str, question: str, show: Callable[[str], None]) -> str:
    """Send a question from the load generator's place, hand pieces of the answer to `show`, and return the whole.

    Raises:
        NoAnswerError: the request failed.
    """
    words = [*runner, "-", url, CHAT_POOL, question]
    with (
        QUERY.open("rb") as program,
        subprocess.Popen(
            words, stdin=program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as client,
    ):
        assert client.stdout
        assert client.stderr
        pieces = []
        while text := client.stdout.read(1):
            pieces.append(text)
            show(text)
        problem = client.stderr.read().strip()
    answer = "".join(pieces).strip()
    if client.returncode or not answer:
        raise NoAnswerError(problem.splitlines()[-1] if problem else "an empty answer")
    return answer
