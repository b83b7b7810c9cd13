-- KEYS: index. ARGV: the name before the page, how many. Answers 1 if the index is complete, and names.
return {redis.call('ZSCORE', KEYS[1], '') and 1 or 0, redis.call('ZRANGEBYLEX', KEYS[1], '(' .. ARGV[1], '+', 'LIMIT', 0, ARGV[2])}
