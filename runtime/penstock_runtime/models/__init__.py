"""Model loaders and execution in torch; the only packages that import torch."""
