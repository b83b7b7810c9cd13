-- KEYS: a key that nothing else uses.
redis.call('SET', KEYS[1], '1', 'PX', 10000)
return 1
