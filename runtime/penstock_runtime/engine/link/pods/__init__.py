"""A model that is split over several pods: the connections between their HTTP processes."""
