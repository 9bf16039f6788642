"""What is: the API server, Prometheus and the pods -> `Observed`. Changes nothing."""
