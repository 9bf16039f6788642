"""Division of a text into pieces."""

from itertools import pairwise


def pieces_of(text: str, cuts: list[int]) -> list[str]:
    """Cut `text` at `cuts`."""
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    return [text[a:b] for a, b in pairwise(places)]
