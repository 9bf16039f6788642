"""`python3 query.py URL MODEL QUESTION` sends one question to a chat pool and prints the answer as it is generated; standard library only."""

import json
import sys
import urllib.request


def main(url: str, model: str, question: str) -> None:
    """Print the answer's pieces as they come."""
    body = {
        "model": model,
        "messages": [{"role": "user", "content": question}],
        "temperature": 0,
        "stream": True,
    }
    request = urllib.request.Request(  # noqa: S310 - the pool's own Service
        f"{url}/v1/chat/completions",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
        for line in answer:
            text = line.decode().strip().removeprefix("data: ")
            if text.startswith("{"):
                print(piece(json.loads(text)), end="", flush=True)
    print()


def piece(chunk: dict[str, list[dict[str, dict[str, str | None]]]]) -> str:
    """Return the text of one chunk of the stream; the last has none."""
    choices = chunk.get("choices") or [{"delta": {}}]
    return choices[0].get("delta", {}).get("content") or ""


if __name__ == "__main__":
    main(*sys.argv[1:])
