"""Text encoders: embedding and classification models."""
