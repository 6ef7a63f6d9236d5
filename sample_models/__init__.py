"""Small models whose diagnosis is known beforehand, each to be read in one sitting.

Every file holds `build()`, which returns `(model, inputs)`: a seeded `torch.nn.Module` in eval
mode and what its forward takes. `normdiag inspect sample_models/pre_norm.py:build` takes one as
a target, and each docstring says what must come out.
"""
