"""The page of CGDP (ICPE 2018): the paper's numbers, its cost model, and the sections."""
