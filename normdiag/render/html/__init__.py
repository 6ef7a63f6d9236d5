"""A report as one self-contained page: charts, findings as cards, tables; no network, no eval."""
