"""The blocks of a page: what runs, what does not and why, and what runs unseen."""

from pathlib import Path

import pytest

from tests.support.pages.blocks import blocks, manifests, pages

PAGE = """# Page

<!-- not run: needs a GPU -->
```sh
kubectl get nodes
```

<!-- before
kubectl create namespace a
-->
```sh
kubectl apply -f - <<EOF
kind: Pod
EOF
```

```yaml
kind: Service
```
"""


def written(folder: Path, text: str) -> Path:
    page = folder / "page.md"
    page.write_text(text)
    return page


def test_a_block_of_commands_runs_unless_the_line_before_it_says_why_not(tmp_path: Path) -> None:
    marked, before, shown, manifest = blocks(written(tmp_path, PAGE))
    assert (marked.not_run, marked.runs, marked.line) == ("needs a GPU", False, 4)
    assert (before.text, before.runs) == ("kubectl create namespace a\n", True)
    assert shown.runs
    assert not manifest.runs


def test_here_documents_of_commands_are_manifests_too(tmp_path: Path) -> None:
    documents = [
        document for block in blocks(written(tmp_path, PAGE)) for document in manifests(block)
    ]
    assert documents == [{"kind": "Pod"}, {"kind": "Service"}]


@pytest.mark.parametrize("after", ["text\n```sh\nls\n```\n", "```yaml\na: 1\n```\n"])
def test_a_marker_without_a_block_of_commands_is_an_error(tmp_path: Path, after: str) -> None:
    with pytest.raises(ValueError, match="must be followed by a block of sh"):
        list(blocks(written(tmp_path, f"<!-- not run: because -->\n{after}")))


def test_no_command_waits_for_the_end_of_a_rollout_by_progressing_false() -> None:
    """It is False before the operator has observed an edit, and after a rollout that failed."""
    waiting = [
        str(block)
        for page in pages()
        for block in blocks(page)
        if "condition=Progressing=False" in block.text
    ]
    assert waiting == []
