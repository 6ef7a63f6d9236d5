"""Pictures of the documentation, each with the content that it was made from."""
