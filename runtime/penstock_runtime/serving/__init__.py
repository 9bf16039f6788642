"""The pod: admission, limits, health, tokenization; between protocols and engines."""
