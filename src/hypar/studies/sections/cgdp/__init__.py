"""The parts of the page of CGDP (ICPE 2018): what the paper publishes, its cost model, and the sections."""
