"""Which shard of a tensor each device has when a level divides several dims, and what two shards share."""
