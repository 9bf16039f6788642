"""Text and tokens on the HTTP side: tokenizer, detokenizer, chat template, stop strings, reasoning, tool calls."""
