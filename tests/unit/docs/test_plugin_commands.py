"""Commands of the kubectl plugin on the pages are commands that it takes, for a pool of the task that the page gives it."""

import shlex
from collections.abc import Iterator

from penstock_kubectl.cli import EPILOG, parser
from tests.support.pages.blocks import blocks, manifests, pages

COMMAND = "kubectl penstock "


def printed() -> Iterator[tuple[str, str]]:
    """Yield where each command is printed, and the command."""
    texts = [(str(block), block.text) for page in pages() for block in blocks(page)]
    for where, text in (*texts, ("--help", EPILOG)):
        for line in text.splitlines():
            if line.strip().startswith(COMMAND):
                yield where, line.strip().partition(" > ")[0]


def text_pools() -> set[str]:
    """Return the names of pools whose manifest on a page has the task TextGeneration."""
    documents = [each for page in pages() for block in blocks(page) for each in manifests(block)]
    return {
        each["metadata"]["name"]
        for each in documents
        if isinstance(each, dict)
        and each.get("kind") == "InferencePool"
        and each["spec"].get("model", {}).get("task") == "TextGeneration"
    }


def test_every_command_has_options_that_exist() -> None:
    commands = [shlex.split(line, comments=True)[2:] for _, line in printed()]
    assert len(commands) > 10
    for words in commands:
        parser().parse_args(words)


def test_no_command_simulates_batch_work_of_a_pool_that_generates_text() -> None:
    assert "chat" in text_pools()
    refused = [
        where
        for where, line in printed()
        if "--batch " in line and shlex.split(line)[3] in text_pools()
    ]
    assert refused == []
