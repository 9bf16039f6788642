"""Structured answers: JSON schemas, regular expressions and grammars, by llguidance."""
