"""Every sentence of a page with two or more numbers, held against the report as JSON."""
