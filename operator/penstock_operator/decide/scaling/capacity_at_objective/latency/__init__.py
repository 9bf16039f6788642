"""Predicted latency: a Markov chain, its table, the prediction."""
