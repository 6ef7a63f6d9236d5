"""The report, its wire format and what is done with saved ones; without torch."""
