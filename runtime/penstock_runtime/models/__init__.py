"""What runs a batch of rows: loaders and models. The only room that imports torch."""
