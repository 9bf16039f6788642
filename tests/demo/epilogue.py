"""The end of the demo: a chat pool, made ready while the show runs, and the plugin's explanation of the show."""

import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import Future
from threading import Thread

from rich.console import Console

from tests.demo import chat
from tests.demo.outcome import Run
from tests.demo.story import NAMESPACE, POOL
from tests.demo.training import TrainingFailedError
from tests.support.kube.api import Api, ApiError
from tests.support.kube.pools import PoolHandle, WaitTimeoutError
from tests.support.kube.target import Target

HISTORY = "10m"
NOT_READY = (TrainingFailedError, WaitTimeoutError, ApiError)
"""The chat pool is not there: no storage, or too busy a machine. The show is as good without it."""


class Epilogue:
    """Prepares the chat pool in a thread with a connection of its own, from its creation on."""

    def __init__(self, target: Target, runner: Sequence[str], console: Console) -> None:
        self._target = target
        self._runner = runner
        self._console = console
        self._serving: Future[PoolHandle] = Future()
        # a daemon: a show that fails does not wait for the chat pool
        Thread(target=self._prepare, args=(target.api(),), name="chat", daemon=True).start()

    def perform(self, run: Run) -> None:
        """Query the chat pool, and print why the sample pool did what it did."""
        try:
            self._chat(run)
        except NOT_READY as problem:
            run.notes.append(f"no chat: its pool is not Ready: {problem}")
        except chat.NoAnswerError as problem:
            run.problems.append(f"the chat pool gave no answer: {problem}")
        self._explain()

    def _prepare(self, api: Api) -> None:
        try:
            self._serving.set_result(chat.serve(api))
        except Exception as problem:  # noqa: BLE001 - raised again where the pool is used
            self._serving.set_exception(problem)

    def _chat(self, run: Run) -> None:
        if not self._serving.done():
            self._say(
                "the chat pool is not Ready yet: waiting for its model to be trained and loaded", ""
            )
        url = self._serving.result().url()
        self._say(f"\n$ {chat.command(url, chat.QUESTIONS[0])}", style="bold")
        for question in chat.QUESTIONS:
            self._say(f"\n> {question}", style="bold")
            run.answer = chat.query(self._runner, url, question, self._show_piece)

    def _explain(self) -> None:
        words = ["explain", POOL, "-n", NAMESPACE, "--last", HISTORY]
        self._say(f"\n$ kubectl penstock {' '.join(words)}", style="bold")
        where = ["--kubeconfig", self._target.kubeconfig] if self._target.kubeconfig else []
        context = ["--context", self._target.context] if self._target.context else []
        sys.stdout.flush()
        argv = [sys.executable, "-m", "penstock_kubectl", *words, *where, *context]
        subprocess.run(argv, check=False, timeout=120)

    def _show_piece(self, text: str) -> None:
        self._console.print(text, end="", highlight=False, markup=False, soft_wrap=True)

    def _say(self, text: str, style: str) -> None:
        self._console.print(text, style=style, highlight=False, markup=False, soft_wrap=True)
