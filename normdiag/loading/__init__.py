"""Load a target: hub id, checkpoint, GGUF file, adapter or factory."""
