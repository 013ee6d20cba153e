"""AccPar (HPCA 2020): the sections of its page."""
