"""The operator's own metrics, the metrics of pools and policies, the decision log, and logs."""
