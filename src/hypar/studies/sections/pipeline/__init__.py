"""Layer-block-wise pipeline (MLSP 2017): the sections of its page."""
