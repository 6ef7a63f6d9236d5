"""Rules: from evidence to findings, without torch, on saved reports too."""
