"""What a report is to a Python caller: tables, scalars, stacks, and how it shows itself."""
