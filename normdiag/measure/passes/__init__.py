"""Runs of the model under a recorder: measured, differentiated, or on the meta device."""
