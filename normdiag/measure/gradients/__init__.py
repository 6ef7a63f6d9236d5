"""The gradient of a loss, and which loss."""
