"""What each norm and each residual add does, over all passes."""
