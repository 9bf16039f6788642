"""The HTTP side of generation: who has not ended yet, what was not yet told, and the text of each choice."""
