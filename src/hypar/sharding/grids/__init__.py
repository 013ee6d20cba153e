"""The shard of a tensor on each device if a level divides several dims, and intersections of shards."""
