"""Search over all levels at once from coarse to fine, where a level's cost depends on how often each option was taken above it.

It holds for every count of transfers in which a level sees of the levels above it what they have left of each tensor,
and not their order. What several levels in a row cost then has a bound that knows how often each option is taken there.
"""
