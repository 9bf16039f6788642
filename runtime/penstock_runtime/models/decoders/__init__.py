"""The step itself: the only room of generation that imports torch and transformers."""
