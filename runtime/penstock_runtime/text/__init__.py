"""Text <-> tokens on the HTTP side: tokenizer, detokeniser, chat template, stop strings, what a model's text means."""
