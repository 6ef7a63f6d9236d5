"""From what was captured to numbers: one file per kind of evidence."""
