"""Grammars that constrain what is generated."""
