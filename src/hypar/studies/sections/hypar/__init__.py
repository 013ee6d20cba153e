"""HyPar (HPCA 2019): the sections of its page."""
