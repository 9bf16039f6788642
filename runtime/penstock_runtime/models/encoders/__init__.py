"""Text encoders from Hugging Face directories: what lies in one, its tokenizer, and how it is computed."""
