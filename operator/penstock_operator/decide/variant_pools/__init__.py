"""Pools of the variants of a pool: their specs, writes, counts, and the parent's status. Pure.

As a Deployment owns ReplicaSets, a pool with `spec.variants` owns one InferencePool `<pool>-<variant>` for each: its own
spec merged with what the variant sets. These pools make Deployments, settings, rollouts, drains, budgets and caps as any
pool does. The parent has the one Service, which selects the pods of all of them, the counts and a summary of the status.
"""
