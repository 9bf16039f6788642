"""The tuner: searches the batch settings of a model with the highest goodput, by measuring a pod of its own."""
