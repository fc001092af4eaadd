"""Names in, arrays out: loaders with cache, checksum and licence; generators."""
