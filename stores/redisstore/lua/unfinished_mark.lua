-- KEYS: index. Marks it as complete.
return redis.call('ZADD', KEYS[1], 0, '')
