"""Tasks that a person gives a model with the ready-made tools, played without a model."""
