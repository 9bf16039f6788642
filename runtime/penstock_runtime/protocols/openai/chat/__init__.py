"""Chat completions: prompts, conversion of bodies and answers, deltas and tools."""
